package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// attachFlags are the flags of commands that take a pool over.
func attachFlags(o *options, flags *flag.FlagSet) {
	poolFlags(o, flags)
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.takeover, "takeover", false, "take the pool of a living program, which is fenced off")
	flags.Var(&o.secrets, "secret", "`NAME=REF` of a secret of waiting tasks: TOKEN=env://TOKEN")
}

// takeoverNote is in the help of commands that take a pool over.
const takeoverNote = `Of a name or ID: takes the pool over from its dead program and leaves it as it is.
Tasks that wait begin; those that call Go functions fail, as this program lacks them.`

// An attached pool is one that this program has taken over.
type attached struct {
	*gputrain.Compute
	s   *session
	rec *observe.Recorder
}

// attach takes a pool over, if the user agrees.
func (s *session) attach(ctx context.Context, r gputrain.PoolRecord) (*attached, error) {
	provider, err := s.providerOf(r)
	if err != nil {
		return nil, err
	}
	secrets, err := s.secretsGiven()
	if err != nil {
		return nil, err
	}
	if !isDead(r) && !s.takeover {
		return nil, errOf(r, &gputrain.Error{Provider: r.Provider, Op: "attach", Kind: gputrain.ErrInUse, Err: fmt.Errorf("pool %s", r.ID)})
	}
	question := fmt.Sprintf("Take pool %s over from its dead program? Tasks that wait begin, and those that call Go functions fail.", r.ID)
	if !isDead(r) {
		question = fmt.Sprintf("Take pool %s over from %s, which loses it?", r.ID, clean(r.Owner))
	}
	if agreed, err := s.agrees(ctx, question); err != nil || !agreed {
		return nil, errors.Join(err, fmt.Errorf("pool %s was not taken over: -yes does it", r.ID))
	}
	return s.take(ctx, r, provider, gputrain.WithSecrets(secrets))
}

// take attaches to a pool. It does not hand ctx on, as its end would end the pool.
func (s *session) take(ctx context.Context, r gputrain.PoolRecord, provider gputrain.Provider, opts ...gputrain.Option) (*attached, error) {
	rec, err := observe.New(observe.Config{Usage: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	opts = append(opts, rec.Option(), gputrain.WithStateDir(s.state))
	if s.takeover {
		opts = append(opts, gputrain.WithTakeover())
	}
	type answer struct {
		pool *gputrain.Compute
		err  error
	}
	came := make(chan answer, 1)
	go func() {
		pool, err := gputrain.Attach(context.WithoutCancel(ctx), provider, r.ID, opts...)
		came <- answer{pool, err}
	}()
	var a answer
	select {
	case a = <-came:
	case <-ctx.Done():
		// The end of this program in the middle of it leaves the pool as it is, too.
		select {
		case a = <-came:
		case <-time.After(10 * time.Second):
			return nil, context.Cause(ctx)
		}
	}
	if a.err != nil {
		return nil, errors.Join(errOf(r, a.err), rec.Close())
	}
	return &attached{Compute: a.pool, s: s, rec: rec}, nil
}

// leave leaves the pool as it is.
func (a *attached) leave() error {
	_, err := a.Detach()
	if errors.Is(err, gputrain.ErrUnsupported) { // it was without a program before
		fmt.Fprintf(a.s.err, "%s\n\"pools end pool %s\" ends the pool\n", clean(err.Error()), a.ID())
		_, err = a.Detach()
	}
	if errors.Is(err, gputrain.ErrClosed) {
		err = nil // it has ended meanwhile
	}
	return errors.Join(err, a.rec.Close())
}

// secretsGiven reads -secret.
func (s *session) secretsGiven() (map[string]gputrain.Secret, error) {
	secrets := map[string]gputrain.Secret{}
	for _, text := range s.secrets {
		name, ref, ok := strings.Cut(text, "=")
		if !ok || name == "" || !strings.Contains(ref, "://") {
			return nil, wrongUsage("-secret takes NAME=REFERENCE, such as TOKEN=env://TOKEN: a value would be seen in the list of processes")
		}
		secrets[name] = gputrain.Secret(ref)
	}
	return secrets, nil
}

// agrees reports whether the user agrees: by -yes, or by an answer on the terminal. Without a terminal it is false.
func (s *session) agrees(ctx context.Context, question string) (bool, error) {
	if s.yes || !s.asks {
		return s.yes, nil
	}
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		answer <- readLine(s.in)
	}()
	select {
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes", nil
	case <-ctx.Done():
		fmt.Fprintln(s.err)
		return false, context.Cause(ctx)
	}
}

// readLine reads up to the end of a line, and not beyond: the rest is a shell's. Without an answer the line is empty.
func readLine(from io.Reader) string {
	var line []byte
	for b := make([]byte, 1); len(line) < 100; {
		n, err := from.Read(b)
		if n > 0 && b[0] == '\n' || n == 0 && err != nil {
			break
		}
		line = append(line, b[:n]...)
	}
	return string(line)
}
