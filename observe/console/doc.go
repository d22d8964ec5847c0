// Package console shows in a terminal what pools do.
//
//	rec, err := observe.New(observe.Config{})
//	defer rec.Close()
//	defer console.Show(rec, os.Stderr).Close()
//	pool, err := gputrain.Open(ctx, provider, spec, rec.Option())
//
// On a terminal the last rows, at most a third of them, show failed nodes, running phases, busy nodes with their tasks, what the
// pools wait for, and a last line with tasks and costs. They are outside of the terminal's scrolling region, so that whatever the
// program prints, on any stream, scrolls above them. Nothing is read from the terminal and no mode of it is changed: Ctrl-C and
// stdin belong to the program. A helper process resets the terminal if the program is killed.
//
// Anywhere else, such as in a log file or in CI, each change of a state is one line, and every 30 seconds one line sums up:
//
//	12:04:05 node 3 ready after 2m11s (L4 europe-west4 $0.71/h)
//
// The words of these lines stay as they are, for grep. Lines about tasks, phases and transfers that go well are 20 a second at
// most: what is left out is counted. That a task was queued has no line.
//
// A terminal is one of a known family by TERM (xterm, screen, tmux, vte, alacritty, kitty, foot, wezterm, ghostty, linux), with at
// least 12 rows and without the variable CI, in the foreground of its shell. GPUTRAIN_CONSOLE overrides this: "live" uses any
// terminal of at least three rows, "plain" prints lines, and "off" shows nothing. NO_COLOR turns colours off. Bars are ASCII if the locale is not UTF-8.
//
// On Windows there is no helper process: a program that is killed leaves the scrolling region set, which "cls" does not change,
// and a new window does.
package console
