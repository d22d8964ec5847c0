package worker

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// protocolVersion changes with everything that an older side would not
// understand. Client and node are the same program, so there is no need to
// speak two; the check is for programs that were mixed up.
const protocolVersion = 4

const (
	// helloMagic and the version after it start every hello, in every version,
	// and so does the shape of a rejection stay.
	helloMagic = "gputrain"
	// nodePreamble comes before the node's first frame. What comes before it,
	// such as text printed by a package's init or a login script, is skipped.
	nodePreamble = "\x00\x01gputrain-worker\x01\x00"
)

// hello is what a client says first.
type hello struct {
	Digest     string
	Generation uint64
	// Client is random, made by Dial; Attempt counts its connections.
	Client  string
	Attempt uint64
	// Open are the calls that the client waits for, and Streams where it is in
	// those that have one. Kept are further ones that the daemon is to keep, and
	// whose results are not to be sent.
	Open    []uint64
	Streams []streamState
	Kept    []uint64
	// Adopt keeps all calls that the daemon has, as if they were in Kept.
	Adopt bool
	// Grace is how long functions may go on after their context has ended.
	Grace time.Duration
	Node  NodeFacts
}

// welcome is the daemon's answer.
type welcome struct {
	// Instance is random, made by each daemon's process.
	Instance  string
	PID       int
	Functions []string
	// Known are those of hello.Open and hello.Kept that the daemon has, or all
	// that it has, and Streams where it is in those that have one.
	Known   []uint64
	Streams []streamState
	// Held tells of all of them where that was asked for.
	Held []heldCall
}

// check refuses a welcome that lists calls which the hello did not name.
func (w *welcome) check(h hello) error {
	if len(w.Instance) > mostInstance {
		return fmt.Errorf("%w: a welcome with an instance id of %d bytes", ErrProtocol, len(w.Instance))
	}
	if h.Adopt {
		if len(w.Known) > mostHeld+len(h.Open)+len(h.Kept) || len(w.Streams) > len(w.Known) {
			return fmt.Errorf("%w: it tells of %d calls", ErrProtocol, len(w.Known))
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
			return fmt.Errorf("%w: it knows the call %d, which nobody named", ErrProtocol, id)
		}
	}
	return nil
}

// mostInstance bounds a daemon's instance id.
const mostInstance = 256

// A heldCall tells a client of a call that it did not make.
type heldCall struct {
	_        struct{} `cbor:",toarray"`
	ID       uint64
	Finished bool
	Header   []byte // a callHeader
	Ran      int64  // nanoseconds from its start until now, or until it ended
	Alone    bool   // no other call ran meanwhile
	From, To Printed
}

// A streamState says how far one side is with the items from the other.
type streamState struct {
	_        struct{} `cbor:",toarray"`
	ID       uint64
	Received uint64 // whole
	Taken    uint64 // by who reads them
}

// rejection is the other answer.
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

// err returns the rejection as the client's user sees it.
func (r rejection) err() error {
	kind := map[rejectCode]error{
		rejectBinary: ErrBinary, rejectFenced: ErrFenced, rejectGone: ErrWorkerLost,
	}[r.Code]
	if kind == nil {
		kind = ErrProtocol
	}
	return fmt.Errorf("%w: %.2000s", kind, r.Message)
}

// callHeader opens a call, before the layout of its argument. It holds only
// numbers and short names: what calls have in common was sent once.
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
	for _, n := range [...]uint64{uint64(h.Timeout), h.Members, uint64(h.Place.Rank), uint64(h.Place.Slot), uint64(h.Place.Attempt), h.Flags} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendString(b, h.Place.TaskID)
	b = binary.AppendUvarint(b, uint64(len(h.Place.Accelerators)))
	for _, a := range h.Place.Accelerators {
		b = appendString(b, a)
	}
	return b
}

// parse undoes appendTo. A mistake is noted by the parser.
func (h *callHeader) parse(p *parser) {
	h.Function = string(p.bytes())
	h.Timeout = time.Duration(p.uint())
	h.Members = p.uint()
	h.Place.Rank, h.Place.Slot, h.Place.Attempt = p.size(), p.size(), p.size()
	h.Flags = p.uint()
	h.Place.TaskID = string(p.bytes())
	for range min(p.size(), len(p.b)) { // each has a byte at least
		h.Place.Accelerators = append(h.Place.Accelerators, string(p.bytes()))
	}
}

// resultHeader opens a result, before its layout.
type resultHeader struct {
	// Items is how many items the call's stream brought.
	Items uint64
	// Elapsed is how long the function ran.
	Elapsed time.Duration
	// Printed is what the process had printed when the function ended.
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

// itemHeader opens an item of a stream, before its layout.
type itemHeader struct {
	Number uint64 // from 0
	End    bool   // there is none of this number, and no further one
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
		// A payload is bounded already, and may be full of call ids.
		MaxArrayElements: maxPayload,
	}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
}()

// encodeWire encodes what this package alone defines.
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

// decodeHello also returns the version, which it can do for every version.
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
