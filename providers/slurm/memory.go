package slurm

import (
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A memory is what the driver knows of a job beside the queue's word.
type memory struct {
	node     driver.NodeRequest //secretvet:ignore its host key is empty: the job makes one
	offer    driver.Offer
	launched time.Time            // zero if another driver has submitted it
	last     driver.InstanceState // as described last
	reason   string               // of last
	asked    bool                 // Terminate was called for it

	verdict *driver.Error // why the job was given up and cancelled
	over    *ending       // how it has ended, if that was asked for

	limited           bool      // the last answer had a reason of the kind driver.ErrQuota
	limitedAt         time.Time // that answer's, on the cluster's clock
	checkedEnd        time.Time // an early end that was looked up
	preempted         bool      // the end at checkedEnd is a preemption
	waitKey, waitText string
}

// An ending is how a job has ended.
type ending struct {
	state, reason, exitCode string
	preempted               bool
}

// remember returns what is known of a job. d.mu is held.
func (d *slurmDriver) remember(id string) *memory {
	m := d.known[id]
	if m == nil {
		m = &memory{}
		d.known[id] = m
	}
	return m
}

// isOurs reports whether a job of the queue is the one that is known by its ID: a controller that has lost its state gives
// IDs again. d.mu is held.
func (m *memory) isOurs(j job) bool { return m.node.Name == "" || m.node.Name == j.nodeName() }
