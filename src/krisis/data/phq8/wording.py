"""What is said in the synthetic interviews whatever the topic: how often, hedges, small talk."""

from __future__ import annotations

# By score. Each stands at the beginning or the end of a sentence.
OFTEN: dict[int, tuple[str, ...]] = {
    1: (
        "on a few days",
        "on several days",
        "now and then in the last two weeks",
        "three or four days out of the last fourteen",
        "a couple of times a week",
        "on and off",
        "on five of the last fourteen days",
        "every once in a while, say twice a week,",
    ),
    2: (
        "more than half of the days",
        "most days",
        "more days than not",
        "nine days out of the last fourteen",
        "on about eight of the last fourteen days",
        "four or five days a week",
        "the greater part of the fortnight",
        "not every day, but the better part of the week,",
    ),
    3: (
        "nearly every day",
        "every single day",
        "all the time",
        "thirteen days out of the last fourteen",
        "day in, day out",
        "without fail these two weeks",
        "almost daily",
        "with not one day off",
    ),
}

HEDGES = (
    "Um, I guess ",
    "It's hard to say, but ",
    "Maybe I'm exaggerating, but ",
    "I don't know, I'd say ",
    "Well, if I think about it, ",
    "Look, I'm no doctor, but ",
)

DENIALS = (
    "No, no, all fine there.",
    "Nothing to report on that front.",
    "Not really, no.",
)

CORRECTIONS = (
    "Can I take something back? You asked me about this before and I brushed it off. {truth}",
    "I wasn't straight with you earlier. {truth}",
    "Actually, what I said before isn't right. {truth}",
)

DEFLECTIONS = (
    "I'd rather not get into that, if you don't mind.",
    "Let's skip that one.",
    "Hm. Next question, please.",
    "That is between me and my doctor.",
)

NO_RECORD = (
    "How it's been these two weeks, I honestly couldn't tell you.",
    "These days I haven't kept track.",
    "About right now I can't really say.",
)

CONTRADICTIONS = (
    "You know, about that thing before: {other}",
    "Going back to what you asked me: {other}",
)

FOLLOW_UPS = (
    "Could you tell me a little more?",
    "I see. Is there anything you would add?",
    "Okay. Anything you want to come back to?",
    "Thank you for telling me.",
)

OPENINGS = (
    ("Hi, thanks for coming in. How are you today?", "I'm okay, thank you. Bit of traffic."),
    ("Where are you from originally?", "Up north, a small town you won't have heard of."),
    ("What do you like about living here?", "The market, and the sea is close."),
    ("How did you get here today?", "I took the bus, it runs every day but Sunday."),
    ("Are you all right with this?", "Yes, sure, go ahead."),
)

# Words of the symptoms and of frequency that say nothing about the person's last two weeks.
SMALL_TALK = (
    ("Do you have pets?", "A dog. He sleeps all day and eats everything that falls on the floor."),
    ("What did you study?", "Accounting, and I was tired of it by the second year."),
    (
        "What's your dream job?",
        "Running a small restaurant. I would cook every single day and never get bored.",
    ),
    (
        "Tell me about a trip you remember.",
        "We drove all night to the coast, nobody slept, and it was the best week of my life.",
    ),
    ("How do you know the people you live with?", "From work. We eat together most days."),
    ("What makes you annoyed?", "Slow drivers, and people who can't sit through a film."),
    ("Who has been a good influence on you?", "My grandmother. She never once gave up on me."),
    (
        "What's something you regret?",
        "Selling my motorbike. I think about it every time the sun comes out.",
    ),
    ("How do you spend the weekend?", "Football on Saturday, and we nearly always lose."),
    ("What is your neighbourhood like?", "Quiet. Everyone moves slowly in this heat."),
    ("Are you close to your family?", "Very. My sister rings nearly every day."),
    ("What do you read?", "Crime, mostly. I couldn't put the last one down for two nights."),
)

CLOSINGS = (
    ("I think I have asked everything I need to.", "Okay. Thank you."),
    ("Is there anything else you would like to say?", "No, I think that's it."),
)
