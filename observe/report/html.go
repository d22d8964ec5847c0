package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"
)

// style is the report's style sheet. It has no character that HTML or XML would have escaped.
//
//go:embed style.css
var style string

// writeHTML writes a document as one HTML file, which is well-formed XML too.
func writeHTML(w io.Writer, d *document) error {
	var b strings.Builder
	esc := html.EscapeString
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>%s</title>
<style>
%s</style>
</head>
<body>
<header>
<h1>%[1]s</h1>
<dl>
`, esc(d.Title), style)
	for _, f := range d.Facts {
		fmt.Fprintf(&b, "<div><dt>%s</dt><dd>%s</dd></div>\n", esc(f.Name), esc(f.Value))
	}
	b.WriteString("</dl>\n</header>\n<main>\n")
	if d.Cause != nil {
		b.WriteString("<section class=\"cause\" aria-labelledby=\"cause\">\n<h2 id=\"cause\">What failed first</h2>\n")
		for _, line := range d.Cause {
			fmt.Fprintf(&b, "<p>%s</p>\n", esc(line))
		}
		b.WriteString("</section>\n")
	}
	for _, s := range d.Sections {
		s.html(&b, d.sum)
	}
	b.WriteString("</main>\n</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (s section) html(b *strings.Builder, sum *summary) {
	figure := ""
	if s.Figure != nil {
		figure = s.Figure(sum)
	}
	if s.Text == "" && figure == "" && !s.hasRows() && s.Outputs == nil {
		return
	}
	fmt.Fprintf(b, "<section aria-labelledby=\"%s\">\n<h2 id=\"%[1]s\">%s</h2>\n", s.ID, s.Title)
	if s.Text != "" {
		fmt.Fprintf(b, "<p>%s</p>\n", html.EscapeString(s.Text))
	}
	if figure != "" {
		fmt.Fprintf(b, "<figure>%s</figure>\n", figure)
	}
	for _, t := range s.Tables {
		if len(t.Rows) > 0 {
			t.html(b)
		}
	}
	for i, p := range s.Outputs {
		open := ""
		if i == 0 {
			open = ` open="open"`
		}
		fmt.Fprintf(b, "<details%s><summary>%s</summary><pre>%s</pre></details>\n", open, html.EscapeString(p.Title), html.EscapeString(p.text()))
	}
	b.WriteString("</section>\n")
}

func (t table) html(b *strings.Builder) {
	fmt.Fprintf(b, "<div class=\"wide\"><table>\n<caption>%s</caption>\n<thead><tr>", t.Caption)
	for _, c := range t.Columns {
		fmt.Fprintf(b, "<th scope=\"col\"%s>%s</th>", c.class(), html.EscapeString(c.Name))
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	row := func(cells []string) {
		b.WriteString("<tr>")
		for i, cell := range cells {
			if i == 0 {
				fmt.Fprintf(b, "<th scope=\"row\">%s</th>", html.EscapeString(cell))
				continue
			}
			fmt.Fprintf(b, "<td%s>%s</td>", t.Columns[i].class(), html.EscapeString(cell))
		}
		b.WriteString("</tr>\n")
	}
	for _, cells := range t.Rows {
		row(cells)
	}
	if t.More != nil {
		row(t.More)
	}
	b.WriteString("</tbody>\n")
	if t.Total != nil {
		b.WriteString("<tfoot>\n")
		row(t.Total)
		b.WriteString("</tfoot>\n")
	}
	b.WriteString("</table></div>\n")
}

func (c column) class() string {
	if c.Number {
		return ` class="n"`
	}
	return ""
}
