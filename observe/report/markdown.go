package report

import (
	"fmt"
	"io"
	"strings"
)

// writeMarkdown writes a document as GitHub's Markdown.
func writeMarkdown(w io.Writer, d *document) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", escapeMarkdown(d.Title))
	for _, f := range d.Facts {
		fmt.Fprintf(&b, "- %s: %s\n", f.Name, escapeMarkdown(f.Value))
	}
	if d.Cause != nil {
		b.WriteString("\n## What failed first\n\n")
		for _, line := range d.Cause {
			fmt.Fprintf(&b, "- %s\n", escapeMarkdown(line))
		}
	}
	for _, s := range d.Sections {
		if s.Text == "" && !s.hasRows() && s.Outputs == nil {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		if s.Text != "" {
			fmt.Fprintf(&b, "\n%s\n", escapeMarkdown(s.Text))
		}
		for _, t := range s.Tables {
			if len(t.Rows) > 0 {
				t.markdown(&b)
			}
		}
		for _, p := range s.Outputs {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", escapeMarkdown(p.Title), fenced(p.text()))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// hasRows reports whether a section has a table that is not empty.
func (s section) hasRows() bool {
	for _, t := range s.Tables {
		if len(t.Rows) > 0 {
			return true
		}
	}
	return false
}

func (t table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n**%s**\n\n", t.Caption)
	line := func(cells []string) {
		for _, cell := range cells {
			b.WriteString("| " + escapeMarkdown(cell) + " ")
		}
		b.WriteString("|\n")
	}
	var names, rules []string
	for _, c := range t.Columns {
		rule := "---"
		if c.Number {
			rule = "---:"
		}
		names, rules = append(names, c.Name), append(rules, rule)
	}
	line(names)
	b.WriteString("| " + strings.Join(rules, " | ") + " |\n")
	for _, row := range t.all() {
		line(row)
	}
}

// all returns the rows with the last ones.
func (t table) all() [][]string {
	rows := t.Rows[:len(t.Rows):len(t.Rows)]
	for _, last := range [][]string{t.More, t.Total} {
		if last != nil {
			rows = append(rows, last)
		}
	}
	return rows
}

// text returns the error and the last lines, as one text.
func (p printed) text() string {
	text := p.Err
	if len(p.Lines) > 0 {
		text += "\n\nLast lines:\n" + strings.Join(p.Lines, "\n")
	}
	return strings.Trim(text, "\n")
}

// escapeMarkdown returns a text that Markdown and HTML in it show as it is, in one line.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch r {
		case '\n', '\r':
			b.WriteByte(' ')
			continue
		case '&':
			b.WriteString("&amp;")
			continue
		case '<':
			b.WriteString("&lt;")
			continue
		case '>':
			b.WriteString("&gt;")
			continue
		case '\\', '|', '`', '*', '_', '[', ']', '#', '~':
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// fenced returns a block of code. Its fence is longer than any in the text.
func fenced(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "text\n" + s + "\n" + fence
}
