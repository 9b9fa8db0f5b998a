"""Names of objects that addresses, libraries and servers treat in ways of their own."""

ODD = [
    "sp ace", "ünï", "日本", "a#1", "a?b", "a%20b", "a b", "a%2520b", "%", "%zz", "a+b", "a%2Bb", "a&b=c", "a*b",
    "a[1]", "a~b", "a'b", "a\"b", "a\\b", "a{b}", "a:b", "a@b", "a;b", "a,b", "a|b", "a<b>", "a^b", "a`b", "$HOME",
    "..a", "a..",
]  # fmt: skip
# Names under which libraries would ask for another object.
REFUSED = [
    "new\nline", "tab\tx", "a//b", "/a", "a/", ".", "..", "x/../y", "a\x7f",
]  # fmt: skip
