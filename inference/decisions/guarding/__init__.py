"""Whether two questions that lie near each other ask the same.

Nearness is a model's; guards look at what it overlooks: a number, a name, a "not". Each can only
refuse, so one more of them never makes a wrong answer likelier.
"""
