package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
)

var helpCommand = &command{
	name: "help", args: "[COMMAND]", most: 2, summary: "describe a command, or list all of them",
	run: nil, // init sets it, since it uses the list of commands, which it is in
}

func init() { helpCommand.run = help }

func help(_ context.Context, s *session) error {
	if len(s.args) == 0 {
		fmt.Fprint(s.out, overview())
		return nil
	}
	c := commandNamed(s.args[0])
	if c == nil {
		return wrongUsage("there is no command %q; there are %s", s.args[0], strings.Join(names(), ", "))
	}
	fmt.Fprint(s.out, c.text())
	return nil
}

// overview is the help of the program. It fits a screen of 24 lines and 80 columns, as does that of each command.
func overview() string {
	var b strings.Builder
	b.WriteString("usage: pools [COMMAND] [FLAGS] [ARGUMENTS]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-26s %s\n", c.name+" "+c.args, c.summary)
	}
	b.WriteString("\n" + wrap(`A POOL is a name or ID of this computer's ledgers, or the file of events of its program, which is only read.
A PROVIDER is vastai, 'aws={"Region": "us-east-1"}', or an account of -accounts FILE. Nothing is ended or taken over without -yes
or a yes on the terminal. Every command has -json. The exit status is 0 if all is done, 1 if something failed, and 2 for wrong usage.
"pools help COMMAND" describes a command and its flags.`))
	return b.String()
}

// line is how the command is called.
func (c *command) line() string {
	return strings.TrimSpace("pools " + c.name + " [FLAGS] " + c.args)
}

// text is the help of a command.
func (c *command) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n\n%s.\n", c.line(), strings.ToUpper(c.summary[:1])+c.summary[1:])
	if c.help != "" {
		b.WriteString(wrap(c.help))
	}
	b.WriteString("\n")
	c.flagSet(&options{}).VisitAll(func(f *flag.Flag) {
		kind, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  %-20s %s\n", strings.TrimSpace("-"+f.Name+" "+kind), usage)
	})
	return b.String()
}

// width is how many columns a line of help has at most.
const width = 79

// wrap breaks lines at words. A line that begins with a space stays as it is.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	end := func() {
		if column > 0 {
			b.WriteString("\n")
		}
		column = 0
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, " ") {
			end()
			b.WriteString(line + "\n")
			continue
		}
		for _, word := range strings.Fields(line) {
			if column > 0 && column+1+len(word) > width {
				end()
			}
			if column > 0 {
				b.WriteString(" ")
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
	}
	end()
	return b.String()
}
