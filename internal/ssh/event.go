package ssh

// An EventKind is a change of a client's connection.
type EventKind int

const (
	// Connected: the connection is up, for the first time or again.
	Connected EventKind = iota
	// Disconnected: the connection was lost, by Err. The client reconnects.
	Disconnected
	// Reconnecting: an attempt to connect failed, by Err. The client tries again.
	Reconnecting
	// Ended: the client has given up for good, by Err.
	Ended
)

// String returns "connected", "disconnected", "reconnecting" or "ended".
func (k EventKind) String() string {
	switch k {
	case Connected:
		return "connected"
	case Disconnected:
		return "disconnected"
	case Reconnecting:
		return "reconnecting"
	}
	return "ended"
}

// An Event is a change of a client's connection.
type Event struct {
	Kind EventKind
	// Err is the reason; nil for Connected.
	Err error
	// Attempt counts the attempts since the last connection, from 1.
	Attempt int
}
