"""What ties among repeated answers did, in a sentence."""

from __future__ import annotations

from krisis.json_values import JsonMapping
from krisis.pages.numbers import Estimate, share


def ties_sentence(ties: JsonMapping) -> str:
    """Say what the ties among repeated answers did."""
    samples = share(Estimate(ties["n_samples_answered"] / ties["n_samples"]))
    items = share(Estimate(ties["n_items_answered"] / ties["n_items"]))
    return (
        f"{ties['n_tied']} of {ties['n_items']} items asked repeatedly have no single commonest "
        "answer; a tie goes to the abstention, else to the smaller score, so "
        f"{ties['n_tied_abstained']} of them count as abstained ({samples} of the askings were "
        f"answered, {items} of the items are); an odd number of repeats leaves fewer ties"
    )
