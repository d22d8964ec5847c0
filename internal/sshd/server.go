package sshd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/private"
)

// A client has loginGrace to log in, as with OpenSSH.
const loginGrace = 2 * time.Minute

// Config is a server's configuration.
type Config struct {
	// HostKey is the server's own key.
	HostKey xssh.Signer
	// AuthorizedKeys are the keys that may log in, under any user name.
	AuthorizedKeys []xssh.PublicKey
	// Password is accepted under any user name. Empty means that none is.
	Password string
	// NoKeys means that keys which were put into .ssh/authorized_keys of Dir are not accepted.
	NoKeys bool
	// NoForwarding means that no connection is forwarded.
	NoForwarding bool
	// Dir is the home directory, in which commands start, and the value of HOME.
	Dir string
	// Env is the environment of commands, as "NAME=value", in addition to HOME and the client's
	// variables. Nothing else is inherited from this program.
	Env []string
	// MaxSessions bounds the concurrent sessions of a connection; more are refused. Zero means no
	// limit.
	MaxSessions int
	// Run, if set, is called by a session instead of starting /bin/sh. Dir and Env have no effect
	// then, and there is neither SFTP nor forwarding. The server uses nothing outside memory, so
	// that it can run in a testing/synctest bubble.
	Run func(ctx context.Context, p Program) (code int)
}

// A Program is passed to Config.Run. Its ctx ends with the server. A cut connection ends Stdin, as
// it does for a process.
type Program struct {
	// Command is the requested command, as shell text. Empty means a shell.
	Command string
	// Env has the client's variables, as "NAME=value".
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// A Server serves SSH connections until it is closed.
type Server struct {
	cfg  Config
	auth *xssh.ServerConfig

	life context.Context // passed to Config.Run
	end  context.CancelFunc
	wg   sync.WaitGroup // every goroutine of the server

	passwords atomic.Int64 // logins by password

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]bool
	conns     map[net.Conn]bool
	processes map[*process]bool
}

// New returns a server for cfg. Its owner closes it.
func New(cfg Config) (*Server, error) {
	if cfg.HostKey == nil {
		return nil, errors.New("the SSH server has no host key")
	}
	if len(cfg.AuthorizedKeys) == 0 && cfg.Password == "" {
		return nil, errors.New("the SSH server has no authorized keys, so no user could log in")
	}
	if cfg.Run == nil {
		if err := cfg.forProcesses(); err != nil {
			return nil, err
		}
	}

	s := &Server{
		cfg:       cfg,
		listeners: map[net.Listener]bool{},
		conns:     map[net.Conn]bool{},
		processes: map[*process]bool{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.auth = &xssh.ServerConfig{
		ServerVersion:     "SSH-2.0-gputrain",
		PublicKeyCallback: authorize(cfg.AuthorizedKeys),
	}
	if cfg.Run == nil && !cfg.NoKeys {
		s.auth.PublicKeyCallback = func(meta xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
			return authorize(append(installed(cfg.Dir), cfg.AuthorizedKeys...))(meta, key)
		}
	}
	if cfg.Password != "" {
		s.auth.PasswordCallback = func(_ xssh.ConnMetadata, given []byte) (*xssh.Permissions, error) {
			if string(given) != cfg.Password {
				return nil, errors.New("wrong password")
			}
			s.passwords.Add(1)
			return &xssh.Permissions{}, nil
		}
	}
	if cfg.Run != nil { // the connection stays in memory, so the cheapest exchange will do
		s.auth.KeyExchanges = []string{xssh.KeyExchangeECDHP256, xssh.KeyExchangeCurve25519}
	}
	s.auth.AddHostKey(cfg.HostKey)
	return s, nil
}

// forProcesses checks the settings that real commands need.
func (cfg *Config) forProcesses() error {
	if err := Supported(); err != nil {
		return err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return fmt.Errorf("the home directory: %w", err)
	}
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("the home directory: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("the home directory %s is not a directory", dir)
	}
	cfg.Dir = dir
	cfg.Env = slices.Clone(cfg.Env)
	return nil
}

// authorize accepts a login with any of the keys.
func authorize(keys []xssh.PublicKey) func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
	var known [][]byte
	for _, k := range keys {
		known = append(known, k.Marshal())
	}
	return func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
		offered := key.Marshal()
		if slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, offered) }) {
			return &xssh.Permissions{}, nil
		}
		return nil, fmt.Errorf("the key %s is not authorized", xssh.FingerprintSHA256(key))
	}
}

// maxAuthorized bounds a file of authorized keys, in bytes.
const maxAuthorized = 1 << 20

// installed returns the keys in a home directory's authorized_keys.
func installed(home string) (keys []xssh.PublicKey) {
	// There may be none. Tasks can put anything there.
	text, _ := private.ReadFile(filepath.Join(home, ".ssh", "authorized_keys"), maxAuthorized)
	for len(text) > 0 {
		key, _, _, rest, err := xssh.ParseAuthorizedKey(text)
		if err != nil {
			break // the rest is blank lines
		}
		keys, text = append(keys, key), rest
	}
	return keys
}

// PasswordLogins returns the number of logins by password.
func (s *Server) PasswordLogins() int { return int(s.passwords.Load()) }

// Serve serves every connection that l accepts, and closes l. It returns nil once the server is
// closed.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !enter(s, s.listeners, l) {
		return nil
	}
	defer leave(s, s.listeners, l)
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.isClosed() {
				return nil
			}
			return err
		}
		if s.enterConn(nc) {
			go s.serve(nc)
		}
	}
}

// ServeConn serves a connection until it ends, and closes it.
func (s *Server) ServeConn(nc net.Conn) {
	if s.enterConn(nc) {
		s.serve(nc)
	}
}

// Dial returns a new connection to the server in memory.
func (s *Server) Dial() (net.Conn, error) {
	client, server := Pipe()
	if !s.enterConn(server) {
		return nil, fmt.Errorf("the SSH server is closed: %w", net.ErrClosed)
	}
	go s.serve(server)
	return client, nil
}

// Close stops listening, ends all connections, kills the process group of every running command
// that a session started, and returns when all of these have ended. Processes that have moved to
// another group are not killed.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	for nc := range s.conns {
		nc.Close()
	}
	for p := range s.processes {
		p.kill()
	}
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
	return nil
}

// HangUp cuts all connections, as a failing network does. It kills nothing.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.conns {
		nc.Close()
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// enterConn records a connection. If the server is closed already, it closes the connection.
func (s *Server) enterConn(nc net.Conn) bool {
	if !enter(s, s.conns, nc) {
		nc.Close()
		return false
	}
	return true
}

// enter adds k to a set of things that Close has to end and wait for. It reports false if the
// server is closed already.
func enter[K comparable](s *Server, set map[K]bool, k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	set[k] = true
	s.wg.Add(1)
	return true
}

// leave removes k after it has ended.
func leave[K comparable](s *Server, set map[K]bool, k K) {
	s.mu.Lock()
	delete(set, k)
	s.mu.Unlock()
	s.wg.Done()
}
