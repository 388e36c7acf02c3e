"""What the people of the synthetic interviews say about each of the eight topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Topic:
    """The sentences for one item; ``{often}`` is where the frequency of the symptom stands.

    ``present`` states the symptom, ``absent`` its absence over the two weeks, ``bare`` names it
    without saying how often, ``someone_else`` gives it to another person and ``past`` to a time
    before the two weeks.
    """

    ask: tuple[str, ...]
    present: tuple[str, ...]
    absent: tuple[str, ...]
    bare: tuple[str, ...]
    someone_else: tuple[str, ...]
    past: tuple[str, ...]


_INTEREST = Topic(
    ask=(
        "What do you enjoy doing these days?",
        "Are you still getting pleasure out of your hobbies?",
        "What have you been looking forward to lately?",
    ),
    present=(
        "{often} I couldn't bring myself to care about anything I usually like.",
        "My guitar just sits there; {often} I had no interest in touching it.",
        "{often} nothing felt fun, not even the football.",
        "I used to love cooking for people, and {often} there was no joy in it.",
        "Friends ask me out and {often} I simply don't feel like doing anything.",
        "{often} I sat in front of my paints and could not see the point of starting.",
    ),
    absent=(
        "Oh, loads. I still enjoy my garden and my choir as much as ever.",
        "I've had fun the whole time, really; I never lost interest in anything.",
        "Everything I normally like, I still like. No change there at all.",
        "I'm as keen on my climbing as I was at twenty, these two weeks included.",
    ),
    bare=(
        "Hobbies, hm. It has not been the same for me lately.",
        "I suppose some of the fun has gone out of things.",
    ),
    someone_else=(
        "My brother has lost interest in everything, poor man. With him it's every day.",
        "My flatmate can't enjoy anything any more, she tells me so all the time.",
    ),
    past=(
        "Back at university I lost all pleasure in things for a whole term.",
        "There was a winter, some years ago, when I enjoyed nothing at all.",
    ),
)

_MOOD = Topic(
    ask=(
        "How has your mood been recently?",
        "Have you been feeling down at all?",
        "How would you describe your spirits over the last two weeks?",
    ),
    present=(
        "{often} I felt really down.",
        "I've been feeling hopeless {often}.",
        "{often} I woke up sad and stayed that way.",
        "There's this grey cloud over me {often}.",
        "{often} I ended up crying in the car.",
        "Honestly, {often} I was miserable for no good reason.",
    ),
    absent=(
        "My mood has been good, I haven't felt down once.",
        "Pretty cheerful, to be honest. No sadness to report.",
        "I've been in good spirits the whole fortnight.",
        "Can't complain, I'm a sunny sort of person and nothing has dented that.",
    ),
    bare=(
        "My mood, well, I have felt sad.",
        "It's been a bit heavy inside, if I'm honest.",
    ),
    someone_else=(
        "My mother is depressed, she cries nearly every day.",
        "My neighbour has been feeling terribly low, most days he doesn't open the curtains.",
    ),
    past=(
        "After the divorce, five years back, I was depressed for months.",
        "I had a very low time as a teenager.",
    ),
)

_SLEEP = Topic(
    ask=(
        "How easy is it for you to get a good night's sleep?",
        "Tell me about your sleep over the last two weeks.",
        "How have your nights been?",
    ),
    present=(
        "{often} I lie awake until three.",
        "I keep waking up in the night, {often}.",
        "{often} I couldn't fall asleep whatever I tried.",
        "{often} I slept right through the alarm and half of the day with it.",
        "My head won't switch off at bedtime, {often}.",
        "{often} I watched the clock go round until it got light.",
    ),
    absent=(
        "I sleep like a log, no bad nights at all.",
        "Sleep is fine. I'm out as soon as my head is on the pillow.",
        "No trouble sleeping, not one night.",
        "Eight hours, lights out at eleven, never an issue.",
    ),
    bare=(
        "Sleep and me, we are not the best of friends.",
        "I have had some trouble sleeping.",
    ),
    someone_else=(
        "My husband has insomnia, he is up every single night.",
        "The baby next door doesn't sleep, so her parents are up nearly every night.",
    ),
    past=(
        "When I worked shifts, years ago, I couldn't sleep at all.",
        "I had insomnia in my old flat, but that was long before I moved.",
    ),
)

_FATIGUE = Topic(
    ask=(
        "How are your energy levels?",
        "Do you get tired easily?",
        "How much energy have you had for everyday things?",
    ),
    present=(
        "{often} I was exhausted by noon.",
        "I feel drained {often}, as if somebody pulled the plug.",
        "{often} I had no energy for anything.",
        "I'm so tired {often} that the stairs are a project.",
        "{often} I was running on empty.",
        "{often} my legs felt like lead before I had done a thing.",
    ),
    absent=(
        "Plenty of energy, I'm never tired.",
        "My energy is good, I even took up running again.",
        "I haven't felt worn out at all in these two weeks.",
        "Full of beans from morning to night, ask anyone.",
    ),
    bare=(
        "Energy, well, I could do with more of it.",
        "I do get tired.",
    ),
    someone_else=(
        "My wife is exhausted, with her it is every single day.",
        "My colleague has no energy at all since his operation, he's tired all the time.",
    ),
    past=(
        "I was worn out for most of last year, with the building work.",
        "In my first job I was tired all the time, but that's ages ago.",
    ),
)

_APPETITE = Topic(
    ask=(
        "How has your appetite been?",
        "Have you been eating more or less than usual?",
        "What are meals like for you at the moment?",
    ),
    present=(
        "{often} I had no appetite and skipped dinner.",
        "I've been overeating {often}, anything that's in the fridge.",
        "{often} I could hardly get any food down.",
        "{often} I forgot to eat until somebody reminded me.",
        "I binge on biscuits {often}.",
        "{often} the plate went back to the kitchen as it came.",
    ),
    absent=(
        "My appetite is normal, three meals, no change.",
        "I eat well, same as always.",
        "No problem with food at all, I enjoy my meals.",
        "Never missed a breakfast, never needed seconds. Nothing odd there.",
    ),
    bare=(
        "Food has been a strange subject lately.",
        "My appetite is not what it was.",
    ),
    someone_else=(
        "My daughter hardly eats, she skips dinner nearly every day.",
        "My father has no appetite since the hospital, most days he eats nothing.",
    ),
    past=(
        "I stopped eating properly when I was in the army, decades ago.",
        "Two summers ago I had no appetite for weeks.",
    ),
)

_FAILURE = Topic(
    ask=(
        "How do you feel about yourself?",
        "Is there anything you blame yourself for?",
        "When you look at your life, are you content with what you have made of it?",
    ),
    present=(
        "{often} I felt like a complete failure.",
        "I think I've let my family down, it comes over me {often}.",
        "{often} I felt worthless.",
        "I'm ashamed of myself {often}.",
        "{often} I kept telling myself that I'm no good.",
        "{often} I went over everything I have ever got wrong.",
    ),
    absent=(
        "I'm happy with who I am, I don't feel like a failure at all.",
        "I've no reason to blame myself, and I never do.",
        "Quite proud of myself, in fact.",
        "I sleep with a clear conscience and look people in the eye.",
    ),
    bare=(
        "I could have done better with my life, I know that.",
        "I do blame myself for things.",
    ),
    someone_else=(
        "My son calls himself a failure, he says it every day.",
        "My best friend feels worthless, nearly every day she rings me about it.",
    ),
    past=(
        "When my business folded, ten years ago, I felt like a failure.",
        "As a student I thought I was worthless.",
    ),
)

_CONCENTRATION = Topic(
    ask=(
        "How is your concentration?",
        "Can you follow a film or a book without drifting off?",
        "Do you find it easy to focus?",
    ),
    present=(
        "{often} I couldn't concentrate on anything.",
        "I read the same page over and over {often}.",
        "{often} my mind wandered off in the middle of a conversation.",
        "I can't focus on my work {often}.",
        "{often} I lost the thread of whatever was on television.",
        "{often} I was standing in a room with no idea what I had come for.",
    ),
    absent=(
        "I can concentrate fine, I finished two books.",
        "No problem focusing at all.",
        "My concentration is as sharp as ever.",
        "Give me a crossword and the house could burn down around me.",
    ),
    bare=(
        "My mind is a bit of a sieve.",
        "Concentration, hm, not my strong point lately.",
    ),
    someone_else=(
        "My nephew can't concentrate, the school writes to us every day.",
        "My boss has trouble focusing, he drifts off most days.",
    ),
    past=(
        "After my concussion I couldn't focus for weeks, but that was when I was twelve.",
        "I had trouble concentrating in my last job, before I changed.",
    ),
)

_PSYCHOMOTOR = Topic(
    ask=(
        "Have you or others noticed that you move or talk more slowly, or are restless?",
        "Do you find it hard to sit still?",
        "Has anybody remarked on how you move or speak?",
    ),
    present=(
        "{often} I was so restless that I paced up and down the hall.",
        "{often} I moved as if through treacle, people asked what was wrong.",
        "I can't sit still {often}.",
        "My wife says I talk so slowly {often}.",
        "{often} I was fidgeting so badly that they told me to stop.",
        "{often} it took me an age to lift the cup or get a sentence out.",
    ),
    absent=(
        "No, nobody has noticed anything, I move and talk as I always do.",
        "I'm not restless at all, and not slow either.",
        "I can sit still for hours, no trouble.",
        "Steady as a clock, that's me.",
    ),
    bare=(
        "I am a bit of a fidget, I have been told.",
        "People say I have slowed down.",
    ),
    someone_else=(
        "My grandson can't sit still, he's up and down every single day.",
        "My aunt has become so slow, nearly every day she needs an hour to dress.",
    ),
    past=(
        "On my old tablets I was terribly restless, that was years ago.",
        "After the accident, when I was young, I moved very slowly for a while.",
    ),
)

TOPICS: Mapping[str, Topic] = MappingProxyType(
    {
        "NoInterest": _INTEREST,
        "Depressed": _MOOD,
        "Sleep": _SLEEP,
        "Tired": _FATIGUE,
        "Appetite": _APPETITE,
        "Failure": _FAILURE,
        "Concentrating": _CONCENTRATION,
        "Moving": _PSYCHOMOTOR,
    }
)
