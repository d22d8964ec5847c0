package main

import (
	"fmt"
	"strings"
	"time"
)

// unit returns a systemd unit that runs this program.
func unit(self string, every time.Duration, args []string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$")
	command := ""
	for _, arg := range append([]string{self, "-every", every.String()}, args...) {
		command += ` "` + quote.Replace(arg) + `"`
	}
	return `[Unit]
Description=End what dead gputrain programs have left

[Service]
# LAMBDA_API_KEY=... and the like, in a file that only you can read
EnvironmentFile=%h/.config/gputrain/guard.env
ExecStart=` + command[1:] + `
Restart=always
RestartSec=1min

[Install]
WantedBy=default.target
`
}

// crontab returns a line for crontab that runs this program once at a time. A round that is not over
// yet does no harm to the next.
func crontab(self string, every time.Duration, args []string) string {
	at := fmt.Sprintf("*/%d * * * *", max(1, int(every.Minutes())))
	if every >= time.Hour {
		at = fmt.Sprintf("0 */%d * * *", min(23, int(every.Hours())))
	}
	command := ""
	for _, arg := range append([]string{self, "-once"}, args...) {
		command += " '" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return at + ` set -a; . "$HOME/.config/gputrain/guard.env"; exec` + strings.ReplaceAll(command, "%", `\%`) + "\n"
}
