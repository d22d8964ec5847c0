package report

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// addSpecs adds what the pools were asked for.
func (b *bundle) addSpecs(a *archive) error {
	type spec struct {
		Pool plain           `json:"pool"`
		Spec json.RawMessage `json:"spec"`
	}
	var all []spec
	for _, p := range b.run.Pools {
		if p.Spec == nil {
			a.miss("spec.json: pool "+p.ID, "the recorder has not seen it open")
			continue
		}
		text, err := specJSON(*p.Spec)
		if err != nil {
			a.miss("spec.json: pool "+p.ID, err.Error())
			continue
		}
		all = append(all, spec{plain(p.ID), text})
	}
	return a.file("spec.json", a.limits.bytes/8, func(w io.Writer) error { return indent(w, each(all, func(s spec) spec { return s })) })
}

// addVersions adds what this program is.
func addVersions(a *archive) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s, %d processors\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if info, ok := debug.ReadBuildInfo(); ok {
		b.WriteString("\n" + info.String())
	} else {
		a.miss("versions.txt: modules", "the program was built without them")
	}
	return a.text("versions.txt", b.String())
}

// addLedgers adds what the ledgers of this computer have about the pools.
func (b *bundle) addLedgers(a *archive) error {
	type row struct {
		ID       plain   `json:"id"`
		Name     plain   `json:"name,omitempty"`
		Provider plain   `json:"provider"`
		Account  plain   `json:"account,omitempty"`
		Owner    plain   `json:"owner"`
		State    plain   `json:"state"`
		Created  moment  `json:"created,omitzero"`
		Expires  moment  `json:"expires,omitzero"`
		Lease    amount  `json:"leaseSeconds"`
		Nodes    int     `json:"nodes"`
		CostUSD  amount  `json:"costUSD"`
		Unknown  int     `json:"unknown"`
		Results  []plain `json:"results"`
		Error    plain   `json:"error,omitempty"`
	}
	records, err := b.ledgers()
	if err != nil {
		a.miss("ledger.json", err.Error())
		return nil
	}
	byID := map[string]gputrain.PoolRecord{}
	for _, r := range records {
		byID[r.ID] = r
	}
	rows := []row{}
	for _, p := range b.run.Pools {
		r, ok := byID[p.ID]
		if !ok {
			a.miss("ledger.json: pool "+p.ID, "this user's ledgers do not have it: it is gone, or its program keeps its ledger elsewhere (gputrain.WithStateDir)")
			continue
		}
		j := row{
			ID: plain(r.ID), Name: plain(r.Name), Provider: plain(r.Provider), Account: plain(r.Account), Owner: plain(r.Owner), State: plain(r.State.String()),
			Created: moment(r.Created), Expires: moment(r.Expires), Lease: seconds(r.Lease), Nodes: r.Nodes, CostUSD: amount(r.CostUSD), Unknown: r.Unknown,
			Results: each(r.Results, func(s string) plain { return plain(s) }),
		}
		if r.Err != nil {
			j.Error = plain(r.Err.Error())
		}
		rows = append(rows, j)
	}
	return a.file("ledger.json", a.limits.bytes/8, func(w io.Writer) error { return indent(w, rows) })
}

// nodeFolder returns the folder of a node.
func nodeFolder(key string, rank int) string { return fmt.Sprintf("nodes/%d-%s", rank, fileName(key)) }

// concernedNodes returns the nodes that have failed, or on which something has: those of the cause first.
func (b *bundle) concernedNodes() (nodes []observe.Node) {
	keys := map[string]bool{}
	byKey := map[string]observe.Node{}
	for _, n := range b.run.Nodes {
		byKey[n.Key] = n
	}
	add := func(key string) {
		if n, ok := byKey[key]; ok && !keys[key] {
			keys[key] = true
			nodes = append(nodes, n)
		}
	}
	if c, ok := findCause(b.run); ok {
		add(c.First.Node)
		if c.Root != nil {
			add(c.Root.Node)
		}
	}
	for _, n := range b.run.Nodes {
		if n.State == "failed" || n.State == "lost" || n.State == "unreachable" || n.Err != "" {
			add(n.Key)
		}
	}
	for _, f := range b.run.Failures {
		add(f.Node)
	}
	return nodes
}

// mostFailedNodes bounds the nodes that have a folder.
const mostFailedNodes = 200

// addNodes adds what is recorded about nodes.
func (b *bundle) addNodes(a *archive, nodes []observe.Node) error {
	for i, n := range nodes {
		if i == mostFailedNodes {
			a.miss("nodes/", fmt.Sprintf("%d more nodes have no folder; run.json has them", len(nodes)-i))
			break
		}
		folder := nodeFolder(n.Key, n.Rank)
		if err := a.file(folder+"/node.json", a.limits.bytes/16, func(w io.Writer) error { return indent(w, nodeOf(n)) }); err != nil {
			return err
		}
		times := map[string]int{}
		for _, p := range b.run.Phases {
			if p.Node != n.Key || len(p.Lines) == 0 {
				continue
			}
			name := "phase-" + fileName(p.Name)
			if times[name]++; times[name] > 1 {
				name += fmt.Sprintf("-%d", times[name])
			}
			stdout, stderr := streams(p.Lines)
			text := fmt.Sprintf("%s, %s\n\n%s%s", cleanLine(p.Name), cleanLine(p.State), stdout, stderr)
			if p.Err != "" {
				text += "\nError: " + clean(p.Err)
			}
			if err := a.text(folder+"/"+name+".txt", text); err != nil {
				return err
			}
		}
	}
	return nil
}
