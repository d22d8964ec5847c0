package cloud

import "strings"

// Script removes the comments and the empty lines of a shell script.
func Script(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Quote quotes s as one word for a shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
