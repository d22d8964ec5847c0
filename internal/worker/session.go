package worker

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// handshakeTimeout bounds how long either side waits for the other's first frame.
const handshakeTimeout = 30 * time.Second

// A session is the daemon's side of one connection. Fields that are not shared belong to its reader.
type session struct {
	*link
	d        *daemon
	arriving map[uint64]*arriving
	items    map[uint64]*arrivingItem
	members  map[uint64][]string
}

// An arriving call is a call whose argument is incomplete.
type arriving struct {
	incoming
	header callHeader
}

func newSession(l *link, d *daemon) *session {
	return &session{link: l, d: d, arriving: map[uint64]*arriving{}, items: map[uint64]*arrivingItem{}, members: map[uint64][]string{}}
}

// serve serves one client until its connection ends.
func (d *daemon) serve(conn io.ReadWriteCloser) {
	s := newSession(newLink(conn, nodePreamble), d)
	defer s.close()
	impatient := time.AfterFunc(handshakeTimeout, s.cut)
	defer impatient.Stop()

	if no := s.greet(); no != nil {
		s.out.end(frameReject, raw(encodeWire(no)))
		s.writer.Wait()
		return
	}
	impatient.Stop()
	defer d.leave(s)
	for {
		if err := s.handleNext(); err != nil {
			return // the client reconnects if it is still there
		}
	}
}

// greet reads the hello and answers it.
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

// expel tells the client that a newer one has connected, and ends the connection.
func (s *session) expel() {
	s.out.end(frameFenced, nil)
	time.AfterFunc(handshakeTimeout, s.cut) // for a client that does not read
}

func (s *session) handleNext() error {
	h, err := s.next()
	if err != nil {
		return err
	}
	switch h.typ {
	case frameMembers:
		return s.membersCome(h)
	case frameCall:
		return s.callOpens(h)
	case frameData:
		return s.callGoesOn(h)
	case frameItem:
		return s.itemOpens(h)
	case frameItemData:
		return s.itemGoesOn(h)
	case frameCredit:
		return s.credit(h)
	case frameCancel:
		payload, err := s.payload(h)
		if err != nil {
			return err
		}
		if a := s.arriving[h.id]; a != nil {
			// The client has stopped sending the call.
			delete(s.arriving, h.id)
			s.d.refuse(s, h.id)
		}
		s.d.cancel(s, h.id, causeOf(payload))
		return nil
	case frameAck:
		delete(s.arriving, h.id)
		s.d.acknowledge(s, h.id)
	case frameCollect:
		s.d.collect(s, h.id)
	case framePing:
		var answer payload
		if h.size > 0 {
			answer = raw(allStacks())
		}
		s.out.push(framePong, h.id, answer)
	default:
		return ErrProtocol
	}
	return s.skip(h)
}

func (s *session) membersCome(h frameHead) error {
	payload, err := s.payload(h)
	if err != nil {
		return err
	}
	var addrs []string
	if err := decodeWire(payload, &addrs); err != nil {
		return err
	}
	s.members[h.id] = addrs
	return nil
}

func (s *session) callOpens(h frameHead) error {
	payload, err := s.payload(h)
	if err != nil {
		return err
	}
	p, a := parser{b: payload}, &arriving{}
	a.header.parse(&p)
	if err := a.open(&p, maxSize); err != nil {
		return err
	}
	if _, known := s.members[a.header.Members]; a.header.Members != 0 && !known {
		return fmt.Errorf("%w: a call among nodes that were not named", ErrProtocol)
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
		return s.skip(h) // cancelled while the frame was under way
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

func (s *session) itemOpens(h frameHead) error {
	payload, err := s.payload(h)
	if err != nil {
		return err
	}
	item, err := parseItem(payload, maxSize)
	if err != nil {
		return err
	}
	stream := s.d.stream(s, h.id)
	switch {
	case stream == nil:
		delete(s.items, h.id) // the call is over, so the rest of the item is skipped
		return nil
	case item.complete():
		return stream.deliver(item.header, item.body)
	}
	s.items[h.id] = item
	return nil
}

func (s *session) itemGoesOn(h frameHead) error {
	item := s.items[h.id]
	if item == nil {
		return s.skip(h)
	}
	if err := item.more(s.frameReader, h); err != nil {
		return err
	}
	if !item.complete() {
		return nil
	}
	delete(s.items, h.id)
	if stream := s.d.stream(s, h.id); stream != nil {
		return stream.deliver(item.header, item.body)
	}
	return nil
}

func (s *session) credit(h frameHead) error {
	payload, err := s.payload(h)
	if err != nil {
		return err
	}
	p := parser{b: payload}
	taken := p.uint()
	if p.bad {
		return fmt.Errorf("%w: a credit without a number", ErrProtocol)
	}
	if stream := s.d.stream(s, h.id); stream != nil {
		return stream.credit(taken)
	}
	return nil
}

// sendResult adds a result to the outbox, with the daemon's lock held. The caller calls kick to write it.
func (s *session) sendResult(c *served) {
	o := opening{&resultHeader{Items: c.items, Elapsed: c.elapsed, Printed: c.to, Error: c.failure}, c.result}
	if isSmall(c.result) {
		s.out.add(frameResult, c.id, o)
	} else {
		s.out.enqueue(&transfer{typ: frameResult, more: frameData, id: c.id, opening: o})
	}
}
