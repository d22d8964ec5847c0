package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A look lists one node's folder of checkpoints, as it was at one moment.
type look struct {
	free    int64 // bytes that the disk has left, or -1 if that is not known
	total   int64 // bytes below the folder
	entries []seen
}

// A seen entry is a file or folder in a look.
type seen struct {
	name  string
	whole bool  // it is a folder step-<n> that has appeared by a rename
	may   bool  // it is a folder step-<n> that may have
	size  int64 // in bytes, as the disk counts
	time  int64 // when it was written last, in Unix seconds
	stamp string
	// since is the look of this attempt that found it first as it is, from 1 on. again says that another one has, and settled that
	// one has settleTime ago.
	since          int
	again, settled bool
}

func (s *seen) order() order { return order{stepOf(s.name), s.time, s.name} }

// lookScript prints "//@", the free space and the total size in KiB, and for each entry its kind, size in KiB, time, stamp and
// name. Only entries that are not whole at once have a stamp, which differs after a change. No name has "//".
//
// A rename changes the change time of a folder (%Z), and nothing else of it. So a folder has appeared by a rename (w) if nothing in it
// has changed since it has, and if its own list (%Y) has not changed at that time, which is how a folder begins in which
// files are made. Within one tick of the node's clock that cannot be told (m), unless it was $s seconds ago.
const lookScript = `LC_ALL=C; export LC_ALL
[ -d "$d" ] || exit 0
cd "$d" || exit 1
if stat -c %Y . >/dev/null 2>&1; then all='-c %n/%s/%Y' times='-c %Y' list='-c %.9Y' change='-c %.9Z'
else all='-f %N/%z/%m' times='-f %m' list='-f %Fm' change='-f %Fc'; fi
free=$(df -Pk . 2>/dev/null | { read -r head; read -r disk blocks used free rest; echo "$free"; })
total=$(du -sk . 2>/dev/null | { read -r size rest; echo "$size"; })
printf '//@%s %s\n' "${free:--1}" "${total:-0}"
for e in *; do
	[ ! -L "$e" ] || continue
	if [ -d "$e" ]; then kind=d; elif [ -f "$e" ]; then kind=f; else continue; fi
	case $kind$e in
	dstep-*[!0-9]* | dstep-) ;;
	dstep-*)
		born=$(stat $change "./$e" 2>/dev/null) last=$(find "./$e" -exec stat $change {} + 2>/dev/null | sort -n | tail -n 1)
		second=${born%%.*}
		if [ "$born" != "$last" ]; then kind=d
		elif [ "$born" = "$(stat $list "./$e" 2>/dev/null)" ] && [ $(($(date +%s) - ${second:-0})) -lt "$s" ]; then kind=m
		else kind=w; fi
		;;
	esac
	if [ $kind = w ]; then
		time=$(stat $times "./$e" 2>/dev/null) stamp=-
	else
		time=$(find "./$e" -exec stat $times {} + 2>/dev/null | sort -n | tail -n 1)
		stamp=$(find "./$e" -exec stat $all {} + 2>/dev/null | sort | cksum | { read -r sum size rest; echo "$sum.$size"; })
	fi
	size=$(du -sk "./$e" 2>/dev/null | { read -r size rest; echo "$size"; })
	[ -e "$e" ] || continue
	printf '//%s %s %s %s %s\n' "$kind" "${size:-0}" "${time:-0}" "${stamp:--}" "$e"
done
`

// lookBytes bounds the answer to it.
const lookBytes = 4 << 20

var errLook = errors.New("the node sent an invalid list of checkpoints")

// lookAt looks at a node.
func lookAt(ctx context.Context, n Node) (look, error) {
	said, err := n.Files.Script(ctx, n.Dir, lookScript, lookBytes, "d="+n.Dir, fmt.Sprint("s=", int(settleTime.Seconds())))
	if err != nil {
		return look{}, fmt.Errorf("%s: %w", n.Name, err)
	}
	l, err := parseLook(said)
	if err != nil {
		return look{}, fmt.Errorf("%s: %w", n.Name, err)
	}
	return l, nil
}

func parseLook(said string) (l look, err error) {
	l.free = -1
	for i, record := range strings.Split(said, "//") {
		record = strings.TrimSuffix(record, "\n")
		if numbers, ok := strings.CutPrefix(record, "@"); ok && i == 1 {
			free, total, _ := strings.Cut(numbers, " ")
			if l.free, err = kibibytes(free); err != nil {
				l.free = -1
			}
			if l.total, err = kibibytes(total); err != nil {
				return look{}, errLook
			}
			continue
		}
		if record == "" {
			continue
		}
		f := strings.SplitN(record, " ", 5)
		if len(f) != 5 || f[4] == "" || strings.Contains(f[4], "/") || strings.HasPrefix(f[4], ".") {
			return look{}, errLook
		}
		s := seen{name: f[4], whole: f[0] == "w" && stepOf(f[4]) >= 0, may: f[0] == "m" && stepOf(f[4]) >= 0, stamp: f[3]}
		var sizeErr, timeErr error
		s.size, sizeErr = kibibytes(f[1])
		s.time, timeErr = strconv.ParseInt(f[2], 10, 64)
		if sizeErr != nil || timeErr != nil {
			return look{}, errLook
		}
		l.entries = append(l.entries, s)
	}
	slices.SortFunc(l.entries, func(a, b seen) int { return a.order().compare(b.order()) })
	return l, nil
}

// kibibytes parses a number of KiB, and returns it in bytes.
func kibibytes(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 53)
	if err != nil || n < 0 {
		return 0, errLook
	}
	return n << 10, nil
}

// has returns the entry of this name, or nil.
func (l *look) has(name string) *seen {
	for i := range l.entries {
		if l.entries[i].name == name {
			return &l.entries[i]
		}
	}
	return nil
}

// A NodeError is an error of one of the nodes.
type NodeError struct {
	Node int // its index
	Err  error
}

func (e *NodeError) Error() string { return e.Err.Error() }
func (e *NodeError) Unwrap() error { return e.Err }

// each calls do for all nodes at once, and returns the first error in their order, as a NodeError.
func each(nodes []Node, do func(i int, n Node) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = do(i, n) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return &NodeError{i, err}
		}
	}
	return nil
}

// lookAll looks at all nodes. It also returns what the first one has, with the stamps of all nodes' parts.
func lookAll(ctx context.Context, nodes []Node) (looks []look, found []seen, err error) {
	looks = make([]look, len(nodes))
	err = each(nodes, func(i int, n Node) (err error) {
		looks[i], err = lookAt(ctx, n)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	found = slices.Clone(looks[0].entries)
	for i := range found {
		s := &found[i]
		for j := range looks[1:] {
			if part := looks[j+1].has(s.name); part != nil {
				s.stamp += " " + part.stamp
				s.size += part.size
			}
		}
	}
	return looks, found, nil
}

// look looks at all nodes, and returns what the first one has. It reports whether the content of any has grown since the
// last look. Of shared storage it looks at the first node alone.
func (k *Keeper) look(ctx context.Context, nodes []Node) (found []seen, grew bool, err error) {
	if k.cfg.Shared {
		nodes = nodes[:1]
	}
	looks, found, err := lookAll(ctx, nodes)
	if err != nil {
		return nil, false, err
	}
	return found, k.history.add(looks, found), nil
}

// A history is what the looks at an attempt have found.
type history struct {
	settle time.Duration        // settleTime
	last   []look               // of each node, the last one
	count  int                  // of the looks in this attempt
	stable map[string]time.Time // since when each entry has not changed
	since  map[string]int       // the first look that has found each entry as it is
}

// forgetLooks has what was found not be compared with what comes.
func (h *history) forgetLooks() { h.last, h.stable = nil, nil }

// add adds looks at all nodes, and says of the entries of the first one what is known of them. It reports whether the content of
// any has grown since the last look.
func (h *history) add(looks []look, found []seen) (grew bool) {
	h.count++
	stable, since := make(map[string]time.Time, len(found)), make(map[string]int, len(found))
	now := time.Now()
	for i := range found {
		s := &found[i]
		key := s.name + " " + s.stamp
		first, again := h.stable[key]
		if !again {
			first = now
		}
		stable[key], since[key] = first, cmp.Or(h.since[key], h.count)
		s.since, s.again, s.settled = since[key], again, now.Sub(first) >= h.settle
	}
	h.since = since
	if len(h.last) == len(looks) {
		for i := range looks {
			grew = grew || looks[i].total > h.last[i].total
			for _, s := range looks[i].entries {
				grew = grew || h.last[i].has(s.name) == nil
			}
		}
	}
	h.stable, h.last = stable, looks
	return grew
}

// A phase is how far a task is.
type phase int

const (
	writing phase = iota
	failed
	succeeded
)

// isWhole reports whether an entry is a whole checkpoint, as far as a look can tell. While a task writes, that is one which
// has appeared by a rename, or has not changed for settleTime. Once it has succeeded, two looks at the same content are enough.
func (s *seen) isWhole(p phase) bool {
	return s.whole || s.settled || s.may && p != writing || s.again && p == succeeded
}
