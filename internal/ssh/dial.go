package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// A host name that does not resolve is retried for namePatience: a new name may need a moment, and a typing error
// should not cost the whole time that a machine may take to start.
const namePatience = 20 * time.Second

// loginGrace bounds a login even if the server keeps sending. It is OpenSSH's own limit.
const loginGrace = 2 * time.Minute

// ciphers begins with those that processors have instructions for.
var ciphers = []string{
	xssh.CipherAES128GCM, xssh.CipherAES256GCM, xssh.CipherChaCha20Poly1305,
	xssh.CipherAES128CTR, xssh.CipherAES192CTR, xssh.CipherAES256CTR,
}

// keyExchanges begins with those that resist quantum computers, then the one that OpenSSH has in fast code: its
// Curve25519 takes a sixth of the server's work for a connection.
var keyExchanges = []string{
	xssh.KeyExchangeMLKEM768X25519,
	xssh.KeyExchangeECDHP256, xssh.KeyExchangeCurve25519, xssh.KeyExchangeECDHP384, xssh.KeyExchangeECDHP521,
	xssh.KeyExchangeDH14SHA256, xssh.KeyExchangeDH16SHA512,
}

// dial connects, and retries until ctx ends or an error comes that another attempt cannot change. It retries a refused
// login for patience. It calls failed after every attempt that another one follows.
func (c *Client) dial(ctx context.Context, patience time.Duration, failed func(err error, attempt int)) (*link, error) {
	pauses := backoff{next: 200 * time.Millisecond, most: 5 * time.Second}
	var last error
	var refused, unknown, absent time.Time // when the login was first refused, the name first not found, the server first absent
	unnamed := namePatience
	if c.cfg.AbsentPatience > 0 {
		unnamed = min(unnamed, c.cfg.AbsentPatience)
	}
	for attempt := 1; ; attempt++ {
		l, err := c.cfg.attempt(ctx)
		switch {
		case err == nil:
			return l, nil
		case c.life.Err() != nil:
			return nil, c.Err()
		case ctx.Err() != nil:
			if last == nil && !errors.Is(err, ctx.Err()) {
				last = err
			}
			return nil, cutShort(ctx, c.cfg.where(), last)
		case isPermanent(err):
			return nil, err
		case errors.Is(err, ErrAuth) && past(&refused, patience):
			return nil, err
		case isUnknownName(err) && c.Generation() == 0 && past(&unknown, unnamed):
			return nil, err
		case !isAbsent(err):
			absent = time.Time{}
		case c.cfg.AbsentPatience > 0 && c.Generation() == 0 && past(&absent, c.cfg.AbsentPatience):
			return nil, fmt.Errorf("%w, for %v", err, c.cfg.AbsentPatience)
		}
		last = err
		failed(err, attempt)
		if !pauses.pause(ctx) {
			if c.life.Err() != nil {
				return nil, c.Err()
			}
			return nil, cutShort(ctx, c.cfg.where(), last)
		}
	}
}

// past reports whether patience has passed since the first call with this clock.
func past(since *time.Time, patience time.Duration) bool {
	if since.IsZero() {
		*since = time.Now()
	}
	return time.Since(*since) >= patience
}

// attempt connects once. If a key is refused, and it is unknown which kind of key was meant, it asks the server for its
// other keys: a pinned fingerprint does not reveal its key's kind, and a server may have come to prefer another.
func (c *Config) attempt(ctx context.Context) (*link, error) {
	release, err := startups.acquire(ctx, c.Addr)
	if err != nil {
		return nil, err
	}
	defer release()
	algorithms := c.HostKeyAlgorithms
	var first *HostKeyError
	for {
		l, offered, err := c.loginByAny(ctx, algorithms)
		var mismatch *HostKeyError
		var negotiation *xssh.AlgorithmNegotiationError
		switch {
		case errors.As(err, &mismatch):
			if first == nil {
				first = mismatch
			}
			if c.HostKeyAlgorithms != nil || offered == nil || mismatch.Revoked || len(mismatch.Want) == 0 {
				return nil, first
			}
			if algorithms == nil {
				algorithms = slices.Clone(xssh.SupportedAlgorithms().HostKeys)
			}
			algorithms = slices.DeleteFunc(algorithms, func(a string) bool {
				return slices.Contains(algorithmsFor(offered.Type()), a)
			})
			if len(algorithms) == 0 {
				return nil, first
			}
		case errors.As(err, &negotiation) && first != nil:
			return nil, first
		case errors.As(err, &negotiation) && negotiation.What == "host key":
			return nil, &HostKeyError{Host: c.where(), Source: "what is known of it",
				Want: []string{strings.Join(c.HostKeyAlgorithms, " or ")}}
		default:
			return l, err
		}
	}
}

// keysAtOnce is how many keys one connection offers. OpenSSH's server ends it after six (MaxAuthTries).
const keysAtOnce = 5

// loginByAny is login by the first of Config.Keys that the server lets in. If there are more than one connection may offer, it
// makes several.
func (c *Config) loginByAny(ctx context.Context, algorithms []string) (l *link, offered xssh.PublicKey, err error) {
	if len(c.Keys) == 0 {
		return c.login(ctx, algorithms, c.Auth)
	}
	for keys := range slices.Chunk(c.Keys, keysAtOnce) {
		l, offered, err = c.login(ctx, algorithms, append([]xssh.AuthMethod{xssh.PublicKeys(keys...)}, c.Auth...))
		if !errors.Is(err, ErrAuth) || ctx.Err() != nil {
			return l, offered, err
		}
	}
	return l, offered, err
}

// login dials, shakes hands and logs in. offered is the key that the server showed.
func (c *Config) login(ctx context.Context, algorithms []string, auth []xssh.AuthMethod) (l *link, offered xssh.PublicKey, err error) {
	dialing, cancel := context.WithTimeout(ctx, c.HandshakeTimeout)
	nc, err := c.Dial(dialing)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	t := newTransport(nc)
	var refusal error
	config := &xssh.ClientConfig{
		Config:            xssh.Config{Ciphers: ciphers, KeyExchanges: keyExchanges},
		User:              c.User,
		Auth:              auth,
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(host string, remote net.Addr, key xssh.PublicKey) error {
			offered = key
			if refusal = c.HostKey(host, remote, key); refusal != nil && !errors.Is(refusal, ErrHostKey) {
				refusal = fmt.Errorf("%w: %w", ErrHostKey, refusal)
			}
			return refusal
		},
	}
	shaking, cancel := context.WithTimeout(ctx, loginGrace)
	defer cancel()
	stop := context.AfterFunc(shaking, func() { t.Close() })
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { t.hear(c.HandshakeTimeout, over, cancel) })
	conn, chans, reqs, err := xssh.NewClientConn(t, c.where(), config)
	stopped := stop()
	close(over)
	watch.Wait()
	switch {
	case err != nil && refusal != nil:
		return nil, offered, refusal
	case err != nil && !stopped:
		return nil, nil, errors.New("ssh handshake: the server does not answer")
	case err != nil && offered != nil && !isCut(err):
		return nil, nil, fmt.Errorf("%w: user %q at %s: %w", ErrAuth, c.User, c.where(), err)
	case err != nil:
		return nil, nil, err
	}
	l = newLink(t, conn, chans, reqs)
	if !stopped { // ctx or patience ended at the same moment, and the connection is closed already
		err := cmp.Or(ctx.Err(), errSilent)
		l.end(err)
		l.wait()
		return nil, nil, err
	}
	return l, offered, nil
}

// where names the server in errors.
func (c *Config) where() string { return cmp.Or(c.Addr, "the node") }

// isCut reports whether an error comes from the network and not from the server.
func isCut(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}

// algorithmsFor lists the host key algorithms for keys of one type.
func algorithmsFor(keyType string) []string {
	switch keyType {
	case xssh.KeyAlgoRSA:
		return []string{xssh.KeyAlgoRSASHA512, xssh.KeyAlgoRSASHA256, xssh.KeyAlgoRSA}
	case xssh.CertAlgoRSAv01:
		return []string{xssh.CertAlgoRSASHA512v01, xssh.CertAlgoRSASHA256v01, xssh.CertAlgoRSAv01}
	}
	return []string{keyType}
}
