package fleet

import "github.com/gputrain/gputrain/providers/driver"

// Break has a member take no further tasks, since its machine is broken. Once it has finished what it runs, it is lost, and
// another machine takes its place. A member that no other machine would follow goes on as it is, one that the user owns, or
// if there were too many replacements: then Break returns false.
func Break(m *Member, why error) bool {
	f := m.fleet
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	if m.broken != nil || m.leaves || m.state.Over() {
		return true
	}
	if m.Node.Capabilities().Adopts || m.next(why).tries > f.config.Replacements {
		return false
	}
	m.broken = why
	f.Tasks.Update(m.Slots)
	loseBroken(m)
	return true
}

// loseBroken gives up a member that is broken and has no tasks. The lock is held.
func loseBroken(m *Member) {
	if m.broken == nil || m.losing || m.hasTasks() || m.visits > 0 {
		return
	}
	m.losing = true
	why := &driver.Error{Provider: m.Node.Provider(), Op: m.Node.Name(), Kind: driver.ErrNodeLost, Err: m.broken}
	m.fleet.config.Node.Go(func() { m.fail(why) })
}
