package journal

import (
	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Location is the node of a result, as it was then. Results name it by its number.
type Location struct {
	Number                         int // which [Journal.Concluded] sets
	Rank                           int
	ID, Name                       string
	State                          int
	Provider, Region, InstanceType string
	USD                            Price
	Accelerator                    accelerators.Accelerator
	PublicAddr, PrivateAddr        string
	OS, Arch                       string
	VCPUs                          int
	MemoryGiB                      float64
	Labels                         map[string]string
	HostKey                        string
	HostKeySource                  int
}

// A Price is kept as dollars, or as null if it is not known.
type Price struct{ driver.Price }

// MarshalCBOR implements [cbor.Marshaler].
func (p Price) MarshalCBOR() ([]byte, error) {
	if usd, known := p.USD(); known {
		return cbor.Marshal(usd)
	}
	return cbor.Marshal(nil)
}

// UnmarshalCBOR implements [cbor.Unmarshaler].
func (p *Price) UnmarshalCBOR(b []byte) error {
	var usd *float64
	if err := unmarshal(b, &usd); err != nil {
		return err
	}
	*p = Price{}
	if usd != nil {
		p.Price = driver.USD(*usd)
	}
	return nil
}

// A locationKey has the fields that distinguish locations: the rest never changes for a machine.
type locationKey struct {
	name, publicAddr, privateAddr, os string
	rank, state                       int
	usd                               Price
}

// locate returns the number of a location. A new one is written before every line that has
// its number.
func (j *Journal) locate(l Location) int {
	key := locationKey{l.Name, l.PublicAddr, l.PrivateAddr, l.OS, l.Rank, l.State, l.USD}
	j.mu.Lock()
	defer j.mu.Unlock()
	if number, known := j.locations[key]; known {
		return number
	}
	j.lastLocation++
	l.Number = j.lastLocation
	line, err := newLine(locationLine, l)
	if err != nil {
		return 0 // a result without its location is better than none
	}
	j.locations[key] = l.Number
	j.base = append(j.base, line)
	j.enqueueLocked(pendingLine{line: line})
	return l.Number
}
