package main

import (
	"context"
	"encoding/gob"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/gputrain/gputrain"
)

// peers are the nodes of a gang as one of them sees them: the first has a connection to each, and the others have one to
// the first. A real training leaves this to its framework, which takes MASTER_ADDR and MASTER_PORT from the environment.
type peers struct {
	links []link
	first bool
}

type link struct {
	net.Conn
	in  *gob.Decoder
	out *gob.Encoder
}

// meet connects the nodes with each other. The connections end with ctx.
func meet(ctx context.Context, node gputrain.NodeInfo) (*peers, error) {
	p := &peers{first: node.Rank == 0}
	addr := net.JoinHostPort(node.MasterAddr, strconv.Itoa(node.MasterPort))
	if !p.first {
		conn, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		p.link(ctx, conn)
		return p, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for range node.Nodes - 1 {
		conn, err := l.Accept()
		if err != nil {
			p.close()
			return nil, err
		}
		p.link(ctx, conn)
	}
	return p, nil
}

// dial connects to the first node as soon as that listens.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *peers) link(ctx context.Context, conn net.Conn) {
	context.AfterFunc(ctx, func() { conn.Close() })
	p.links = append(p.links, link{conn, gob.NewDecoder(conn), gob.NewEncoder(conn)})
}

// add replaces values by the sum of the values of all nodes.
func (p *peers) add(values []float64) error {
	if !p.first {
		if err := p.links[0].out.Encode(values); err != nil {
			return lost(err)
		}
		return lost(p.links[0].in.Decode(&values))
	}
	for _, l := range p.links {
		var theirs []float64
		if err := l.in.Decode(&theirs); err != nil {
			return lost(err)
		}
		for i := range values {
			values[i] += theirs[i]
		}
	}
	for _, l := range p.links {
		if err := l.out.Encode(values); err != nil {
			return lost(err)
		}
	}
	return nil
}

// lost returns why another node cannot be heard, in the words by which gputrain knows that this is not the root cause.
func lost(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("connection closed by peer: %w", err)
}

func (p *peers) close() {
	for _, l := range p.links {
		l.Close()
	}
}
