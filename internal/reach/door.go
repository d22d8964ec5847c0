package reach

import (
	"context"
	"io"
	"net"
	"sync"
)

// A door is a port of this computer that leads to the SSH server of a node which has no address: in memory, or behind a
// driver's own way. Whoever connects must still log in.
type door struct {
	listener net.Listener
	dial     func(ctx context.Context) (net.Conn, error)
	ctx      context.Context
	cancel   context.CancelFunc
	conns    sync.WaitGroup
}

// openDoor listens on the loopback.
func openDoor(a *Access, dial func(ctx context.Context) (net.Conn, error)) (*door, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{listener: l, dial: dial}
	d.ctx, d.cancel = context.WithCancel(a.config.Context)
	if !a.start(d.accept) {
		d.close()
		return nil, a.ended("ssh config")
	}
	return d, nil
}

// close ends the door with its connections. It does not wait for them.
func (d *door) close() {
	d.cancel()
	d.listener.Close()
}

func (d *door) accept() {
	defer d.conns.Wait()
	defer d.close()
	defer context.AfterFunc(d.ctx, func() { d.listener.Close() })()
	for {
		here, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.conns.Go(func() { d.serve(here) })
	}
}

// serve copies both directions until one ends, as an SSH connection does as a whole.
func (d *door) serve(here net.Conn) {
	defer here.Close()
	there, err := d.dial(d.ctx)
	if err != nil {
		return // the client reports that the server has closed the connection
	}
	defer there.Close()
	end := sync.OnceFunc(func() {
		here.Close()
		there.Close()
	})
	defer context.AfterFunc(d.ctx, end)()
	var both sync.WaitGroup
	both.Go(func() { defer end(); io.Copy(there, reader{here}) })
	both.Go(func() { defer end(); io.Copy(writer{here}, there) })
	both.Wait()
}
