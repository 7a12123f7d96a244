"""Sentences that need no function: small talk, refusals, explanations."""

from __future__ import annotations

import random

INSTRUCTIONS = (
    "",
    "",
    "You are a helpful assistant.",
    "You help the user of this app. Use a function when one fits.",
    "Answer briefly.",
    "You are the voice of the app. Call functions for what they can do, and answer in a sentence.",
    "Be friendly and exact. Never invent data.",
    "Assist the customer.",
)

SMALL_TALK = (
    ("hello", "Hello! What can I do for you?"),
    ("hi there", "Hi! How can I help?"),
    ("good morning", "Good morning! What can I do for you?"),
    ("hey", "Hey! How can I help you?"),
    ("thank you", "You are welcome."),
    ("thanks a lot, that was all", "You are welcome. Have a nice day!"),
    ("great, thanks!", "My pleasure."),
    ("bye", "Goodbye!"),
    ("good night", "Good night!"),
    ("see you tomorrow", "See you tomorrow!"),
    ("who are you?", "I am the assistant of this app."),
    ("what is your name", "I am the assistant of this app; I have no name of my own."),
    ("are you a robot", "I am a language model that runs on this device."),
    ("how are you", "I am fine, thank you. What can I do for you?"),
    ("how is it going?", "All is well. How can I help?"),
    ("you are funny", "Thank you! What can I do for you?"),
    ("that was wrong", "I am sorry. Tell me what you need, and I try again."),
    ("ok", "All right. Is there anything else?"),
    ("never mind", "All right. Tell me when you need something."),
    ("wait a moment", "Take your time."),
    ("I am bored", "Tell me what I can do for you, and we start."),
    ("nice weather today", "Enjoy it! What can I do for you?"),
    ("do you like music", "I cannot listen to music, but I like to help."),
    ("I am back", "Welcome back! What can I do for you?"),
    ("can you hear me", "I read every word. What can I do for you?"),
    ("yes", "All right. What should I do?"),
    ("no thanks", "All right. Tell me when you need something."),
    ("sorry, wrong chat", "No problem."),
    ("haha", "What can I do for you?"),
    ("well done", "Thank you!"),
)

_CANNOT = (
    "I am sorry, I have no function for that.",
    "That is something I cannot do here.",
    "I cannot do that; none of my functions fits.",
    "Sorry, that is outside of what I can do.",
    "I have no function that can do this.",
)

ERRORS = (
    "The service is not reachable",
    "Not found",
    "The value is out of range",
    "You are not signed in",
    "Too many requests, try again later",
    "The device is offline",
    "Permission denied",
    "The item does not exist",
    "It is already done",
    "The card was refused",
    "The date is in the past",
    "No such user",
)

_EXPLAIN = (
    "That did not work: {0}.",
    "I am sorry, it failed: {0}.",
    "It could not be done. The reason is: {0}.",
    "There was a problem: {0}.",
)

_ACKNOWLEDGE = (
    "All right, I did not do it.",
    "You declined, so nothing was changed.",
    "Understood, I leave everything as it is.",
    "As you wish, the action was not carried out.",
)


def cannot(rng: random.Random) -> str:
    """An answer to what no function can do."""
    return rng.choice(_CANNOT)


def explain(error: str, rng: random.Random) -> str:
    """Tells the user what a function reported."""
    return rng.choice(_EXPLAIN).format(error)


def acknowledge(rng: random.Random) -> str:
    """An answer after the user has declined an action."""
    return rng.choice(_ACKNOWLEDGE)
