package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
)

// A command is one of the program's commands.
type command struct {
	name    string
	args    string // as the help names them
	least   int    // number of arguments
	most    int    // -1: any number
	summary string
	help    string // what the summary does not say
	flags   func(*options, *flag.FlagSet)
	run     func(context.Context, *session) error
}

// commands are in the order in which the help lists them. It is a function because help itself is one of them.
func commands() []*command {
	return []*command{
		listCommand, nodesCommand, costCommand, jobsCommand, logsCommand, watchCommand, shellCommand,
		endCommand, planCommand, gpusCommand, helpCommand,
	}
}

func commandNamed(name string) *command {
	all := commands()
	if i := slices.IndexFunc(all, func(c *command) bool { return c.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// options are the values of the flags of any command.
type options struct {
	json      bool
	state     string
	accounts  string
	providers texts
	yes       bool
	takeover  bool
	secrets   texts
	page      bool
	follow    bool
	raw       bool
	offers    offerOptions
}

// A session is one run of a command.
type session struct {
	*app
	options
	args []string
}

func (s *session) dir() gputrain.StateDir { return gputrain.StateDir(s.state) }

// texts is a flag that can be given several times.
type texts []string

func (t *texts) String() string { return strings.Join(*t, " ") }

func (t *texts) Set(text string) error {
	*t = append(*t, text)
	return nil
}

// run runs a command line.
func (a *app) run(ctx context.Context, args []string) error {
	name := "list"
	if len(args) > 0 && (!strings.HasPrefix(args[0], "-") || isHelp(args[0])) {
		name, args = args[0], args[1:]
	}
	if isHelp(name) {
		name = "help"
	}
	c := commandNamed(name)
	if c == nil {
		return wrongUsage("there is no command %q; there are %s", name, strings.Join(names(), ", "))
	}
	s := &session{app: a}
	flags := c.flagSet(&s.options)
	given, err := parse(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(a.out, c.text())
		return nil
	case err != nil:
		return wrongUsage("%v; \"pools help %s\" lists the flags", err, c.name)
	case len(given) < c.least || c.most >= 0 && len(given) > c.most:
		return wrongUsage("usage: %s; see \"pools help %s\"", c.line(), c.name)
	}
	s.args = given
	return c.run(ctx, s)
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

// flagSet returns the flags of the command, with their values in o.
func (c *command) flagSet(o *options) *flag.FlagSet {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.json, "json", false, "print JSON")
	if c.flags != nil {
		c.flags(o, flags)
	}
	return flags
}

// parse parses flags before, between and after arguments. What follows "--" is no flag.
func parse(flags *flag.FlagSet, args []string) (given []string, err error) {
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		rest := flags.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			return append(given, rest...), nil
		}
		if len(rest) == 0 {
			break
		}
		given, args = append(given, rest[0]), rest[1:]
	}
	return given, nil
}

func names() (all []string) {
	for _, c := range commands() {
		all = append(all, c.name)
	}
	return all
}
