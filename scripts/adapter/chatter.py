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

# What the test split says in place of the above; neither training nor validation sees it.

INSTRUCTIONS_OF_TESTS = (
    "",
    "You are the assistant of a mobile app.",
    "Help with what the functions below can do. Do not make things up.",
    "Keep your answers short and polite.",
    "You work for the user: call a function when it does what is asked, else say that you cannot.",
    "You are an agent on a phone.",
)

SMALL_TALK_OF_TESTS = (
    ("hiya", "Hi! What can I do for you?"),
    ("good evening", "Good evening! What can I do for you?"),
    ("hello, anybody there?", "Hello! I am here. What can I do for you?"),
    ("many thanks for your help", "You are welcome."),
    ("cheers, that is perfect", "My pleasure."),
    ("you did well today", "Thank you!"),
    ("goodbye then", "Goodbye!"),
    ("talk to you later", "See you!"),
    ("sleep well", "Good night!"),
    ("tell me who I am talking to", "I am the assistant of this app."),
    ("do you have a name?", "I am the assistant of this app; I have no name of my own."),
    ("are you a human being", "I am a language model that runs on this device."),
    ("what is up?", "All is well. How can I help?"),
    ("how do you feel today", "I am fine, thank you. What can I do for you?"),
    ("I am a bit tired", "Take your time."),
    ("hm, let me think", "Take your time."),
    ("forget it", "All right. Tell me when you need something."),
    ("that is all for now", "All right. Tell me when you need something."),
    ("what a lovely evening", "Enjoy it! What can I do for you?"),
    ("no, that is not right at all", "I am sorry. Tell me what you need, and I try again."),
    ("ha, very good!", "Thank you! What can I do for you?"),
    ("sure", "All right. What should I do?"),
    ("not now", "All right. Tell me when you need something."),
    ("I have just got up", "Good morning! What can I do for you?"),
    ("is it cold where you are?", "I run on your device. What can I do for you?"),
)

ERRORS_OF_TESTS = {
    "The printer is out of paper": "paper",
    "The account is locked": "locked",
    "Connection timed out": "timed out",
    "The file is too large": "too large",
    "This number is not in use": "not in use",
    "The battery is empty": "battery",
    "Your subscription has ended": "subscription",
    "The door is open": "open",
    "No free place is left": "no free",
    "The server is under maintenance": "maintenance",
}
"""Each with the words of it that an explanation cannot do without."""

LINKS = (" and ", ", and also ", "; also ", ". And ", " plus ")
LINKS_OF_TESTS = (" and ", "; then also ", ". Also: ", ", and one more thing: ", " & ")
"""Between two wishes."""

PLANS = (
    "first {0}, then {1}",
    "{0}. When that is done, {1}",
    "{0}; after that {1}",
    "start with this: {0}. Next: {1}",
)
PLANS_OF_TESTS = (
    "step one: {0}. Step two: {1}",
    "{0}, and once you have the result, {1}",
    "begin with: {0}. Only then: {1}",
    "{0} - afterwards {1}",
)
"""One wish after the other."""

BARE_WISHES = ("I want to {0}{1}", "{0}{1}", "can you {0}{1}", "{0} for me{1}", "let us {0}{1}")
BARE_WISHES_OF_TESTS = (
    "I would like this: {0}{1}",
    "{0} now{1}",
    "next thing: {0}{1}",
    "I need you for this: {0}{1}",
    "{0}, will you{1}",
)
"""The name of a function in words, and what is said of its arguments."""

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
