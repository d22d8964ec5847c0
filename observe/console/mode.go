package console

import (
	"slices"
	"strings"
)

// A mode is a way to show something.
type mode int

const (
	offMode mode = iota
	plainMode
	liveMode
)

const (
	// A terminal of fewer rows has none to spare.
	leastRows = 12
	// GPUTRAIN_CONSOLE=live needs this many: one for the block, and two for the program.
	leastForced = 3
)

// families are the terminals that are known to keep what is outside of the scrolling region, by the first word of TERM.
var families = []string{"xterm", "screen", "tmux", "vte", "alacritty", "kitty", "foot", "wezterm", "ghostty", "linux"}

// choose returns how something is shown, by the environment and the terminal.
func choose(getenv func(string) string, t terminal) mode {
	_, rows, ok := t.size()
	switch forced(getenv) {
	case "off":
		return offMode
	case "plain":
		return plainMode
	case "live":
		if ok && rows >= leastForced && t.sequences() {
			return liveMode
		}
		return plainMode
	}
	if ok && rows >= leastRows && getenv("CI") == "" && (t.known || isKnown(getenv("TERM"))) && t.isForeground() && t.sequences() {
		return liveMode
	}
	return plainMode
}

// forced returns what GPUTRAIN_CONSOLE asks for. Any other value than those it has is as none.
func forced(getenv func(string) string) string {
	return strings.ToLower(strings.TrimSpace(getenv("GPUTRAIN_CONSOLE")))
}

func isKnown(term string) bool {
	family, _, _ := strings.Cut(term, "-")
	family, _, _ = strings.Cut(family, ".")
	return slices.Contains(families, family)
}

// isUTF8 reports whether the locale's encoding is UTF-8, by POSIX's order of variables.
func isUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// isWide reports whether the locale is one in which terminals may show the characters of bars two columns wide.
func isWide(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			return strings.HasPrefix(v, "ja") || strings.HasPrefix(v, "ko") || strings.HasPrefix(v, "zh")
		}
	}
	return false
}
