package report

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/internal/runjson"
)

// addSpecs adds what the pools were asked for.
func (b *bundle) addSpecs(a *archive) error {
	type spec struct {
		Pool string          `json:"pool"`
		Spec json.RawMessage `json:"spec"`
	}
	all := []spec{}
	for _, p := range b.run.Pools {
		if p.Spec == nil {
			a.miss("spec.json: pool "+p.ID, "the recorder has not seen it open")
			continue
		}
		text, err := runjson.SpecOf(*p.Spec)
		if err != nil {
			a.miss("spec.json: pool "+p.ID, err.Error())
			continue
		}
		all = append(all, spec{printable.Line(p.ID), text})
	}
	return a.file("spec.json", a.limits.bytes/8, func(w io.Writer) error { return indent(w, all) })
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
		ID       string         `json:"id"`
		Name     string         `json:"name,omitempty"`
		Provider string         `json:"provider"`
		Account  string         `json:"account,omitempty"`
		Owner    string         `json:"owner"`
		State    string         `json:"state"`
		Created  string         `json:"created,omitempty"`
		Expires  string         `json:"expires,omitempty"`
		Lease    runjson.Number `json:"leaseSeconds"`
		Nodes    int            `json:"nodes"`
		CostUSD  runjson.Number `json:"costUSD"`
		Unknown  int            `json:"unknown"`
		Results  []string       `json:"results"`
		Error    string         `json:"error,omitempty"`
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
			ID: printable.Line(r.ID), Name: printable.Line(r.Name), Provider: printable.Line(r.Provider), Account: printable.Line(r.Account), Owner: printable.Line(r.Owner),
			State: printable.Line(r.State.String()), Created: runjson.Time(r.Created), Expires: runjson.Time(r.Expires), Lease: runjson.Seconds(r.Lease), Nodes: r.Nodes,
			CostUSD: runjson.Number(r.CostUSD), Unknown: r.Unknown, Results: []string{},
		}
		for _, name := range r.Results {
			j.Results = append(j.Results, printable.Line(name))
		}
		if r.Err != nil {
			j.Error = printable.Text(r.Err.Error())
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
		if err := a.file(folder+"/node.json", a.limits.bytes/16, func(w io.Writer) error { return indent(w, runjson.NodeOf(n)) }); err != nil {
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
