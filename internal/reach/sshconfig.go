package reach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/providers/driver"
)

// A Server is a node's SSH server as other clients reach it.
type Server struct {
	Rank int
	// Name is the node's name.
	Name string
	// Addr is host:port. If Dial is not nil, the server has no address that other clients reach, and Dial connects to it.
	Addr string
	Dial func(ctx context.Context) (net.Conn, error)
	// User logs in: by the private key in KeyFile or, if Agent is true, by the keys of the user's agent.
	User    string
	KeyFile string
	Agent   bool
	// HostKey is the key that the server has proved, in authorized_keys form.
	HostKey string
}

// header begins a configuration file, and marks it as one that may be overwritten.
const header = "# Written by gputrain for the pool "

// knownHosts is added to a configuration file's path for the file with the host keys.
const knownHosts = ".known_hosts"

// configFiles are the files that WriteSSHConfig was asked for. They follow the nodes.
type configFiles struct {
	access  *Access
	changed chan struct{} // signals the goroutine that follows the nodes

	mu      sync.Mutex
	follows bool              // that goroutine was started
	paths   []string          // absolute
	written map[string][]byte // content, by path
	doors   map[string]*door  // of servers without an address, by node
	closed  bool
}

// WriteSSHConfig writes a configuration for OpenSSH's programs with the pool's nodes, and keeps it up to date until the
// pool ends. Then it removes the file, unless another program has changed it.
func (a *Access) WriteSSHConfig(path string) error {
	err := a.files.add(path)
	if err == nil || errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrClosed) {
		return err
	}
	return a.refuse("ssh config", nil, err)
}

func (c *configFiles) add(path string) error {
	invalid := func(format string, args ...any) error {
		return c.access.refuse("ssh config", driver.ErrInvalid, fmt.Errorf(format, args...))
	}
	if path == "" {
		return invalid("no path was given")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if strings.ContainsAny(abs, "\"\n\r\x00") || strings.Contains(abs, "${") {
		return invalid("the path %q has a character that OpenSSH's configuration cannot hold", path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.access.ended("ssh config")
	}
	for _, file := range []string{abs, abs + knownHosts} {
		if why := notOurs(file); why != nil {
			return invalid("%w; name a file that does not exist", why)
		}
	}
	if !c.follows {
		if !c.access.start(c.follow) {
			return c.access.ended("ssh config")
		}
		c.follows = true
	}
	if !slices.Contains(c.paths, abs) {
		c.paths = append(c.paths, abs)
	}
	if err := c.write(abs, c.servers()); err != nil {
		return errors.Join(err, c.remove(abs))
	}
	return nil
}

// notOurs returns why a file may not be overwritten, or nil.
func notOurs(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(text), header) {
		return fmt.Errorf("%s is there, and gputrain has not written it", path)
	}
	return nil
}

// Changed makes the files follow the nodes. It waits for nothing, and takes no lock.
func (a *Access) Changed() {
	select {
	case a.files.changed <- struct{}{}:
	default:
	}
}

// follow writes the files anew whenever nodes have changed, until the pool ends.
func (c *configFiles) follow() {
	for {
		select {
		case <-c.access.config.Context.Done():
			return
		case <-c.changed:
		}
		if err := c.update(); err != nil {
			c.access.config.Trouble("ssh config", err)
		}
	}
}

// update writes the files that still are as they were written.
func (c *configFiles) update() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	servers := c.servers()
	var errs []error
	for _, path := range c.paths {
		if c.untouched(path) { // otherwise it is another program's now
			errs = append(errs, c.write(path, servers))
		}
	}
	return errors.Join(errs...)
}

// untouched reports whether a file has the content that was written last. c.mu is held.
func (c *configFiles) untouched(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && string(text) == string(c.written[path])
}

// servers returns the servers of the nodes, with addresses that other clients reach. c.mu is held.
func (c *configFiles) servers() []Server {
	servers := c.access.config.Servers()
	wanted := map[string]bool{}
	for i, s := range servers {
		if s.Dial == nil {
			continue
		}
		wanted[s.Name] = true
		d := c.doors[s.Name]
		if d == nil {
			var err error
			if d, err = openDoor(c.access, s.Dial); err != nil {
				c.access.config.Trouble("ssh config", fmt.Errorf("a port for %s: %w", s.Name, err))
				continue
			}
			c.doors[s.Name] = d
		}
		servers[i].Addr = d.listener.Addr().String()
	}
	for name, d := range c.doors {
		if !wanted[name] {
			d.close()
			delete(c.doors, name)
		}
	}
	return servers
}

// write writes the file at path and the one with the host keys, if they are not so already. c.mu is held.
func (c *configFiles) write(path string, servers []Server) error {
	config, keys := c.compose(path, servers)
	for _, f := range []struct {
		path string
		text []byte
	}{{path + knownHosts, keys}, {path, config}} {
		if string(c.written[f.path]) == string(f.text) && c.untouched(f.path) {
			continue
		}
		if err := replace(f.path, f.text); err != nil {
			return err
		}
		c.written[f.path] = f.text
	}
	return nil
}

// compose returns the content of both files.
func (c *configFiles) compose(path string, servers []Server) (config, keys []byte) {
	var b, k strings.Builder
	first := header + c.access.config.Pool + ", which removes this file at its end.\n"
	b.WriteString(first + "# ssh -F " + filepath.Base(path) + " node-0\n")
	k.WriteString(first)
	for _, s := range servers {
		host, port, err := net.SplitHostPort(s.Addr)
		if err != nil || s.HostKey == "" || !plain(host) || !plain(s.User) {
			continue
		}
		fmt.Fprintf(&b, "\nHost node-%d %s\n", s.Rank, s.Name)
		line := func(name, value string) { fmt.Fprintf(&b, "\t%s %s\n", name, value) }
		line("HostName", host)
		line("Port", port)
		line("User", s.User)
		if s.KeyFile != "" {
			line("IdentityFile", quote(s.KeyFile))
		}
		if !s.Agent {
			line("IdentitiesOnly", "yes")
		}
		line("HostKeyAlias", s.Name)
		line("UserKnownHostsFile", quote(path+knownHosts))
		line("GlobalKnownHostsFile", "none")
		line("StrictHostKeyChecking", "yes")
		line("UpdateHostKeys", "no")
		line("ServerAliveInterval", "15")
		fmt.Fprintf(&k, "%s %s\n", s.Name, strings.TrimSpace(s.HostKey))
	}
	return []byte(b.String()), []byte(k.String())
}

// plain reports whether text from a provider is one word of a configuration, and no option.
func plain(s string) bool {
	return s != "" && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("\"'\\#%$", r)
	})
}

// quote returns a path as a word of OpenSSH's configuration. Forward slashes work under Windows, too.
func quote(path string) string {
	return `"` + strings.ReplaceAll(filepath.ToSlash(path), "%", "%%") + `"`
}

// replace writes a file that only this user can read, whole or not at all.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// remove removes the files of a path that are as they were written. c.mu is held.
func (c *configFiles) remove(path string) error {
	var errs []error
	for _, file := range []string{path, path + knownHosts} {
		if c.written[file] != nil && c.untouched(file) {
			errs = append(errs, os.Remove(file))
		}
		delete(c.written, file)
	}
	c.paths = slices.DeleteFunc(c.paths, func(p string) bool { return p == path })
	return errors.Join(errs...)
}

// close removes all files, and ends the connections that clients have made by them to servers without an address.
func (c *configFiles) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, path := range slices.Clone(c.paths) {
		if err := c.remove(path); err != nil {
			c.access.config.Trouble("ssh config", err)
		}
	}
	for _, d := range c.doors {
		d.close()
	}
	clear(c.doors)
}
