package worker

import (
	"errors"
	"io"
	"time"
)

// handshakeTimeout bounds how long either side waits for the other's first
// words.
const handshakeTimeout = 30 * time.Second

// A session is one connection of a client, seen from the daemon.
type session struct {
	*link
	d        *daemon
	arriving map[uint64]*arriving
}

// An arriving call is one whose argument is not whole yet.
type arriving struct {
	incoming
	header callHeader
}

// serve talks to one client until its connection ends.
func (d *daemon) serve(conn io.ReadWriteCloser) {
	s := &session{link: newLink(conn, nodePreamble), d: d, arriving: map[uint64]*arriving{}}
	defer s.close()
	impatient := time.AfterFunc(handshakeTimeout, s.cut)
	defer impatient.Stop()

	if no := s.greet(); no != nil {
		s.out.end(&message{typ: frameReject, opening: encodeWire(no)})
		s.writer.Wait()
		return
	}
	impatient.Stop()
	defer d.leave(s)
	for {
		if err := s.handleNext(); err != nil {
			return // the client will come back if it is still there
		}
	}
}

// greet reads the hello and has it answered.
func (s *session) greet() *rejection {
	head, err := s.next()
	if err == nil && head.typ != frameHello {
		err = errors.New("the first frame is no hello")
	}
	var payload []byte
	if err == nil {
		payload, err = s.payload(head)
	}
	var h hello
	if err == nil {
		h, _, err = decodeHello(payload)
	}
	if err != nil {
		return &rejection{rejectProtocol, err.Error()}
	}
	if h.Client == "" {
		return &rejection{rejectProtocol, "the client has no id"}
	}
	if no := s.d.check(h); no != nil {
		return no
	}
	return s.d.admit(s, h)
}

// expel tells the client that a newer one has come, and ends the connection.
func (s *session) expel() {
	s.out.end(&message{typ: frameFenced})
	time.AfterFunc(handshakeTimeout, s.cut) // for one that does not listen
}

func (s *session) handleNext() error {
	h, err := s.next()
	if err != nil {
		return err
	}
	switch h.typ {
	case frameCall:
		return s.callOpens(h)
	case frameData:
		return s.callGoesOn(h)
	case frameCancel:
		if a := s.arriving[h.id]; a != nil {
			// The client has stopped sending it.
			delete(s.arriving, h.id)
			s.d.refuse(s, h.id)
		}
		s.d.cancel(s, h.id)
	case frameAck:
		delete(s.arriving, h.id)
		s.d.acknowledge(s, h.id)
	case framePing:
		s.out.push(&message{typ: framePong, id: h.id})
	default:
		return ErrProtocol
	}
	return s.skip(h)
}

func (s *session) callOpens(h frameHead) error {
	payload, err := s.payload(h)
	if err != nil {
		return err
	}
	a := &arriving{}
	first, err := splitOpening(payload, &a.header)
	if err != nil {
		return err
	}
	if err := a.open(a.header.Size, first); err != nil {
		return err
	}
	if a.complete() {
		s.d.start(s, h.id, a.header, a.body)
	} else {
		s.arriving[h.id] = a
	}
	return nil
}

func (s *session) callGoesOn(h frameHead) error {
	a := s.arriving[h.id]
	if a == nil {
		return s.skip(h) // cancelled while this was on its way
	}
	if err := a.more(s.frameReader, h); err != nil {
		return err
	}
	if a.complete() {
		delete(s.arriving, h.id)
		s.d.start(s, h.id, a.header, a.body)
	}
	return nil
}

// sendResult is called with the daemon's lock held.
func (s *session) sendResult(c *served) {
	s.out.push(&message{
		typ: frameResult, id: c.id, body: c.result,
		opening: opening(resultHeader{Size: uint64(len(c.result)), Error: c.failure}),
	})
}
