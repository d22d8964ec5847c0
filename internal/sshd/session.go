package sshd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	xssh "golang.org/x/crypto/ssh"
)

// A session is a channel of type "session". It sets variables, starts one program, and ends when
// the program has ended and the channel is closed.
type session struct {
	srv *Server
	ch  xssh.Channel
	env []string
	tty *terminal // nil for pipes

	started bool
	process *process // nil if the session runs the SFTP server of this package
	wg      sync.WaitGroup
}

// These are the payloads of a session's requests (RFC 4254, section 6).
type (
	envRequest       struct{ Name, Value string }
	execRequest      struct{ Command string }
	subsystemRequest struct{ Name string }
	signalRequest    struct{ Name string }
	exitStatus       struct{ Code uint32 }
	exitSignal       struct {
		Name    string
		Core    bool
		Message string
		Lang    string
	}
)

// serveSession serves one session. As with OpenSSH, a session whose client has gone still counts
// until its program has ended.
func (s *Server) serveSession(c xssh.NewChannel) {
	ch, requests, err := c.Accept()
	if err != nil {
		return
	}
	sn := &session{srv: s, ch: ch}
	for r := range requests {
		ok, run := sn.request(r.Type, r.Payload)
		if r.WantReply {
			r.Reply(ok, nil)
		}
		if run != nil { // only now, because the reply must come before any output
			sn.wg.Go(run)
		}
	}
	// The client closed the channel, or the connection was cut.
	if sn.process != nil {
		sn.process.hangUp()
	}
	sn.wg.Wait()
}

// request answers one request. If that starts a program, run serves it.
func (sn *session) request(kind string, payload []byte) (ok bool, run func()) {
	switch kind {
	case "env":
		var r envRequest
		if xssh.Unmarshal(payload, &r) != nil || sn.started || !validEnv(r.Name, r.Value) {
			return false, nil
		}
		sn.env = append(sn.env, r.Name+"="+r.Value)
		return true, nil
	case "pty-req":
		tty, ok := parseTerminal(payload)
		if !ok || sn.started || sn.srv.cfg.Run != nil {
			return false, nil
		}
		sn.tty = tty
		return true, nil
	case "window-change":
		columns, rows, ok := parseSize(payload)
		if ok && sn.tty != nil {
			sn.tty.columns, sn.tty.rows = columns, rows
			if sn.process != nil {
				sn.process.resize(columns, rows)
			}
		}
		return ok, nil
	case "exec":
		var r execRequest
		if xssh.Unmarshal(payload, &r) != nil {
			return false, nil
		}
		return sn.start("-c", r.Command)
	case "shell":
		return sn.start()
	case "subsystem":
		var r subsystemRequest
		if xssh.Unmarshal(payload, &r) != nil || r.Name != "sftp" || sn.started || sn.srv.cfg.Run != nil {
			return false, nil
		}
		sn.started = true
		return true, sn.serveSFTP
	case "signal":
		var r signalRequest
		if xssh.Unmarshal(payload, &r) != nil || sn.process == nil {
			return false, nil
		}
		return sn.process.signal(r.Name) == nil, nil
	}
	return false, nil // an agent, X11: not supported
}

// start starts /bin/sh with args, as the session's one program.
func (sn *session) start(args ...string) (ok bool, run func()) {
	if sn.started {
		return false, nil
	}
	sn.started = true
	cfg := &sn.srv.cfg
	if cfg.Run != nil {
		return true, func() { sn.serveProgram(args) }
	}
	p, err := startProcess(args, cfg.Dir, slices.Concat(cfg.Env, []string{"HOME=" + cfg.Dir}, sn.env), sn.tty)
	if err != nil {
		// A refusal could not give the reason.
		return true, func() {
			fmt.Fprintf(sn.ch.Stderr(), "sshd: cannot start the command: %v\n", err)
			sn.exit(exit{code: 255})
			sn.ch.Close()
		}
	}
	sn.process = p
	if !enter(sn.srv, sn.srv.processes, p) {
		p.kill() // Close came first and did not know the process
		return true, sn.run
	}
	return true, func() {
		defer leave(sn.srv, sn.srv.processes, p)
		sn.run()
	}
}

// run copies the program's streams and reports how it ended.
func (sn *session) run() {
	p := sn.process
	var in, out, eof sync.WaitGroup
	in.Go(sn.copyIn)
	out.Go(func() { copyOut(sn.ch, p.stdout) })
	if p.stderr != nil {
		out.Go(func() { copyOut(sn.ch.Stderr(), p.stderr) })
	}
	eof.Go(func() {
		out.Wait()
		sn.ch.CloseWrite() // the program may go on after it has closed both
	})

	sn.exit(p.wait())
	eof.Wait()
	sn.ch.Close()
	in.Wait() // until the client has closed the channel too
}

// copyIn copies the client's data to the program's stdin. It also reads data that the program does
// not, so that the client is not blocked.
func (sn *session) copyIn() {
	io.Copy(sn.process.stdin, sn.ch)
	if sn.tty == nil { // a terminal's end would end its output, too
		sn.process.stdin.Close()
	}
	io.Copy(io.Discard, sn.ch)
}

// exit reports to the client how the program ended.
func (sn *session) exit(e exit) {
	if e.signal != "" {
		sn.ch.SendRequest("exit-signal", false, xssh.Marshal(exitSignal{Name: e.signal, Core: e.core}))
		return
	}
	sn.ch.SendRequest("exit-status", false, xssh.Marshal(exitStatus{Code: uint32(e.code)}))
}

// validEnv reports whether an environment can hold the variable.
func validEnv(name, value string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00") && !strings.Contains(value, "\x00")
}
