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
)

// loginGrace is how long a client may take to log in, as with OpenSSH.
const loginGrace = 2 * time.Minute

// Config says who may log in to a server, and what a session finds.
type Config struct {
	// HostKey is what the server proves itself with.
	HostKey xssh.Signer
	// AuthorizedKeys may log in, under any name.
	AuthorizedKeys []xssh.PublicKey
	// Password lets in whoever has it, under any name, and with it whose key is then put
	// into .ssh/authorized_keys of Dir, unless NoKeys is set. Empty means that neither does.
	Password string
	NoKeys   bool
	// Dir is the home directory: where commands start and what HOME says.
	Dir string
	// Env is the whole environment of commands, as "NAME=value", beside HOME
	// and what the client sets. Nothing else is inherited from this program.
	Env []string
	// MaxSessions is how many sessions a connection may have at once; more are
	// refused. Zero means no limit.
	MaxSessions int
	// Run, where it is set, is what a session starts instead of /bin/sh. Dir and
	// Env mean nothing then, and neither SFTP nor forwarding is there: nothing of
	// the server leaves memory, so that it can live in a testing/synctest bubble.
	Run func(ctx context.Context, p Program) (code int)
}

// A Program is what Config.Run is to be. Its ctx ends with the server; a
// connection that is cut ends its Stdin, as it does a process's.
type Program struct {
	// Command is what the client asked for, as shell text. Empty means a shell.
	Command string
	// Env is what the client has set, as "NAME=value".
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// A Server serves SSH connections until it is closed.
type Server struct {
	cfg  Config
	auth *xssh.ServerConfig

	life context.Context // of what Config.Run runs
	end  context.CancelFunc
	wg   sync.WaitGroup // every goroutine of the server

	passwords atomic.Int64 // how often the password was right

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
		return nil, errors.New("the SSH server has no authorized keys, so that no user could log in")
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
	if cfg.Password != "" && !cfg.NoKeys {
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
	if cfg.Run != nil { // it stays in memory: the exchange that costs least
		s.auth.KeyExchanges = []string{xssh.KeyExchangeECDHP256, xssh.KeyExchangeCurve25519}
	}
	s.auth.AddHostKey(cfg.HostKey)
	return s, nil
}

// forProcesses checks what real commands need.
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

// authorize lets in whoever has one of the keys.
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

// installed returns the keys that were put into a home directory.
func installed(home string) (keys []xssh.PublicKey) {
	text, _ := os.ReadFile(filepath.Join(home, ".ssh", "authorized_keys")) // there may be none
	for len(text) > 0 {
		key, _, _, rest, err := xssh.ParseAuthorizedKey(text)
		if err != nil {
			break // nothing but blank lines is left
		}
		keys, text = append(keys, key), rest
	}
	return keys
}

// PasswordLogins returns how often somebody was let in by the password.
func (s *Server) PasswordLogins() int { return int(s.passwords.Load()) }

// Serve serves every connection that l accepts, and closes l. It returns nil
// once the server is closed.
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

// ServeConn serves one connection, closes it, and returns when it has ended.
func (s *Server) ServeConn(nc net.Conn) {
	if s.enterConn(nc) {
		s.serve(nc)
	}
}

// Dial returns a new connection to the server, in memory.
func (s *Server) Dial() (net.Conn, error) {
	client, server := Pipe()
	if !s.enterConn(server) {
		return nil, fmt.Errorf("the SSH server is closed: %w", net.ErrClosed)
	}
	go s.serve(server)
	return client, nil
}

// Close stops listening, ends all connections, kills the process group of
// every command that a session started and that still runs, and returns when
// all of that has ended. What detached itself into another group lives on.
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

// HangUp ends all connections, as a network that fails does. It kills nothing.
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

// enterConn enters a connection, and closes it if it comes too late.
func (s *Server) enterConn(nc net.Conn) bool {
	if !enter(s, s.conns, nc) {
		nc.Close()
		return false
	}
	return true
}

// enter notes something that Close has to end and to wait for. It reports false
// if the server is closed already.
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

// leave says that it has ended.
func leave[K comparable](s *Server, set map[K]bool, k K) {
	s.mu.Lock()
	delete(set, k)
	s.mu.Unlock()
	s.wg.Done()
}
