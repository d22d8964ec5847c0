package worker

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// protocolVersion changes with everything that an older side would not understand. Client and node are the same
// program, so neither supports two versions; the check detects programs that were mixed up.
const protocolVersion = 6

const (
	// Every hello, in every version, begins with helloMagic and the version. The form of a rejection never changes
	// either.
	helloMagic = "gputrain"
	// nodePreamble precedes the node's first frame. Anything before it, such as text printed by a package's init or a
	// login script, is skipped.
	nodePreamble = "\x00\x01gputrain-worker\x01\x00"
)

// hello is a client's first frame.
type hello struct {
	Digest     string
	Generation uint64
	// Client is random, made by Dial; Attempt counts its connections.
	Client  string
	Attempt uint64
	// Open are the calls that the client waits for, and Streams the states of those with a stream. Kept are further
	// calls for the daemon to keep without sending their results.
	Open    []uint64
	Streams []streamState
	Kept    []uint64
	// Adopt keeps all calls that the daemon has, as if Kept listed them.
	Adopt bool
	// Grace is how long functions may go on after their context has ended.
	Grace time.Duration
	Node  NodeFacts
}

// welcome is the daemon's answer.
type welcome struct {
	// Instance is random, made by each daemon process.
	Instance  string
	Functions []string
	// Known are the calls of hello.Open and hello.Kept that the daemon has, or with Adopt all that it has. Streams are
	// the states of those with a stream.
	Known   []uint64
	Streams []streamState
	// Held describes all of them if the hello has Adopt.
	Held []heldCall
}

// check refuses a welcome that lists calls which the hello did not name.
func (w *welcome) check(h hello) error {
	if len(w.Instance) > mostInstance {
		return fmt.Errorf("%w: a welcome with an instance id of %d bytes", ErrProtocol, len(w.Instance))
	}
	if h.Adopt {
		if len(w.Known) > mostHeld+len(h.Open)+len(h.Kept) || len(w.Streams) > len(w.Known) {
			return fmt.Errorf("%w: it lists %d calls", ErrProtocol, len(w.Known))
		}
		return nil
	}
	named := make(map[uint64]bool, len(h.Open)+len(h.Kept))
	for _, id := range slices.Concat(h.Open, h.Kept) {
		named[id] = true
	}
	if len(w.Known) > len(named) || len(w.Streams) > len(named) {
		return fmt.Errorf("%w: it knows %d of %d calls", ErrProtocol, len(w.Known), len(named))
	}
	for _, id := range w.Known {
		if !named[id] {
			return fmt.Errorf("%w: it knows the call %d, which the hello does not name", ErrProtocol, id)
		}
	}
	return nil
}

// mostInstance bounds a daemon's instance id.
const mostInstance = 256

// A heldCall describes a call to a client that did not make it.
type heldCall struct {
	_        struct{} `cbor:",toarray"`
	ID       uint64
	Finished bool
	Header   []byte // a callHeader
	Ran      int64  // nanoseconds from its start until now, or until it ended
	Alone    bool   // no other call ran meanwhile
	From, To Printed
}

// A streamState is one side's progress with the items from the other.
type streamState struct {
	_        struct{} `cbor:",toarray"`
	ID       uint64
	Received uint64 // complete
	Taken    uint64 // by the reader
}

// rejection is the daemon's answer to a client that it refuses.
type rejection struct {
	Code    rejectCode
	Message string
}

type rejectCode string

const (
	rejectProtocol rejectCode = "protocol"
	rejectBinary   rejectCode = "binary"
	rejectFenced   rejectCode = "fenced"
	rejectGone     rejectCode = "gone" // from the attach process
)

// err returns the error of a rejection for the caller of Dial.
func (r rejection) err() error {
	kind := map[rejectCode]error{
		rejectBinary: ErrBinary, rejectFenced: ErrFenced, rejectGone: ErrWorkerLost,
	}[r.Code]
	if kind == nil {
		kind = ErrProtocol
	}
	return fmt.Errorf("%w: %.2000s", kind, r.Message)
}

// callHeader begins a call, before the layout of its argument. It holds only numbers and short names: what calls have
// in common was sent once.
type callHeader struct {
	Function string
	Timeout  time.Duration
	// Members refers to a frameMembers of this connection.
	Members uint64
	Place   Place
	Flags   uint64
}

const (
	flagStream  = 1 << iota // the call has a stream
	flagScratch             // its scratch directory is made before it starts
)

func (h *callHeader) appendTo(b []byte) []byte {
	b = appendString(b, h.Function)
	for _, n := range [...]uint64{uint64(h.Timeout), h.Members, uint64(h.Place.Rank), uint64(h.Place.Slot), uint64(h.Place.Attempt), uint64(h.Place.MasterPort), h.Flags} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendString(b, h.Place.TaskID)
	b = binary.AppendUvarint(b, uint64(len(h.Place.Accelerators)))
	for _, a := range h.Place.Accelerators {
		b = appendString(b, a)
	}
	b = appendString(b, h.Place.Units)
	b = appendString(b, h.Place.Checkpoints)
	return appendString(b, h.Place.Resume)
}

// parse reverses appendTo. The parser records mistakes.
func (h *callHeader) parse(p *parser) {
	h.Function = string(p.bytes())
	h.Timeout = time.Duration(p.uint())
	h.Members = p.uint()
	h.Place.Rank, h.Place.Slot, h.Place.Attempt, h.Place.MasterPort = p.size(), p.size(), p.size(), p.size()
	h.Flags = p.uint()
	h.Place.TaskID = string(p.bytes())
	for range min(p.size(), len(p.b)) { // each has a byte at least
		h.Place.Accelerators = append(h.Place.Accelerators, string(p.bytes()))
	}
	h.Place.Units = string(p.bytes())
	h.Place.Checkpoints, h.Place.Resume = string(p.bytes()), string(p.bytes())
}

// resultHeader begins a result, before its layout.
type resultHeader struct {
	// Items is how many items the function sent on the call's stream.
	Items uint64
	// Elapsed is how long the function ran.
	Elapsed time.Duration
	// Printed is the process's output count when the function ended.
	Printed Printed
	Error   *wireError
}

func (h *resultHeader) appendTo(b []byte) []byte {
	for _, n := range [...]uint64{h.Items, uint64(h.Elapsed), uint64(h.Printed[0]), uint64(h.Printed[1])} {
		b = binary.AppendUvarint(b, n)
	}
	if h.Error == nil {
		return append(b, 0)
	}
	return appendString(b, string(encodeWire(h.Error)))
}

func (h *resultHeader) parse(p *parser) error {
	h.Items = p.uint()
	h.Elapsed = time.Duration(max(int64(p.uint()), 0))
	h.Printed = Printed{max(int64(p.uint()), 0), max(int64(p.uint()), 0)}
	if e := p.bytes(); len(e) > 0 {
		return decodeWire(e, &h.Error)
	}
	return nil
}

// itemHeader begins an item of a stream, before its layout.
type itemHeader struct {
	Number uint64 // from 0
	End    bool   // the stream has no item of this number and no further one
}

func (h *itemHeader) appendTo(b []byte) []byte {
	n := h.Number << 1
	if h.End {
		n |= 1
	}
	return binary.AppendUvarint(b, n)
}

func (h *itemHeader) parse(p *parser) {
	n := p.uint()
	h.Number, h.End = n>>1, n&1 == 1
}

// A number is a payload.
type number uint64

func (n number) appendTo(b []byte) []byte { return binary.AppendUvarint(b, uint64(n)) }

var wire = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		IndefLength: cbor.IndefLengthForbidden,
		TagsMd:      cbor.TagsForbidden,
		UTF8:        cbor.UTF8DecodeInvalid, // error messages may hold anything
		// A payload is bounded already, and may consist of call ids.
		MaxArrayElements: maxPayload,
	}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
}()

// encodeWire encodes the types of this package.
func encodeWire(v any) []byte {
	b, err := cbor.Marshal(v)
	if err != nil {
		panic(err) // none of the types above can fail
	}
	return b
}

func decodeWire(b []byte, v any) error {
	if err := wire.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

func encodeHello(h hello) []byte {
	b := binary.BigEndian.AppendUint32([]byte(helloMagic), protocolVersion)
	return append(b, encodeWire(h)...)
}

// decodeHello also returns the version, which it can read in every version.
func decodeHello(b []byte) (h hello, version uint32, err error) {
	const prefix = len(helloMagic) + 4
	if len(b) < prefix || string(b[:len(helloMagic)]) != helloMagic {
		return h, 0, fmt.Errorf("%w: the first frame is no hello", ErrProtocol)
	}
	version = binary.BigEndian.Uint32(b[len(helloMagic):])
	if version != protocolVersion {
		return h, version, fmt.Errorf("%w: the client speaks version %d and the node version %d; both must be built from the same gputrain", ErrProtocol, version, protocolVersion)
	}
	return h, version, decodeWire(b[prefix:], &h)
}
