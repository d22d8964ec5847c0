package sshd

import xssh "golang.org/x/crypto/ssh"

// A terminal is what a client asks for with pty-req (RFC 4254, section 6.2). The modes that it lists are not applied: the
// terminal has the system's.
type terminal struct {
	kind          string
	columns, rows uint32
}

// parseTerminal reads the payload of a pty-req.
func parseTerminal(payload []byte) (*terminal, bool) {
	var r struct {
		Type                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if xssh.Unmarshal(payload, &r) != nil || !validEnv("TERM", r.Type) {
		return nil, false
	}
	return &terminal{r.Type, r.Columns, r.Rows}, true
}

// parseSize reads the payload of a window-change.
func parseSize(payload []byte) (columns, rows uint32, ok bool) {
	var r struct{ Columns, Rows, Width, Height uint32 }
	err := xssh.Unmarshal(payload, &r)
	return r.Columns, r.Rows, err == nil
}
