package container

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// startAtOnce bounds the nodes that are started at the same time.
	startAtOnce = 8
	// startAttempts bounds the starts of a node whose port another program takes before the
	// engine can.
	startAttempts = 3
)

// Launch starts the nodes and returns once each runs its SSH server. It removes a node that did
// not come up, and returns the others together with the error.
func (d *containerDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	if err := checkLaunch(req); err != nil {
		return nil, fail("launch", err)
	}
	image, env, err := d.imageOf(ctx, req)
	if err != nil {
		return nil, fail("launch", err)
	}
	var (
		g    errgroup.Group
		mu   sync.Mutex
		made []driver.Instance
		errs []error
	)
	g.SetLimit(startAtOnce)
	for _, node := range req.Nodes {
		g.Go(func() error {
			id, err := d.launchNode(ctx, req, node, image, env)
			mu.Lock()
			defer mu.Unlock()
			if id != "" {
				made = append(made, driver.Instance{ID: id, Name: node.Name, Rank: node.Rank})
			}
			if err != nil {
				errs = append(errs, fail("launch", fmt.Errorf("%s: %w", node.Name, err)))
			}
			return nil
		})
	}
	_ = g.Wait() // errs has all errors

	// Report what exists even to a caller that has given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	slices.SortFunc(made, func(a, b driver.Instance) int { return a.Rank - b.Rank })
	ids := make([]string, len(made))
	for i, in := range made {
		ids[i] = in.ID
	}
	instances, err := d.describe(ctx, ids)
	if err != nil {
		return made, errors.Join(append(errs, fail("launch", err))...)
	}
	return instances, errors.Join(errs...)
}

// imageOf returns the name and the environment of the image that nodes start from.
func (d *containerDriver) imageOf(ctx context.Context, req driver.Launch) (name string, env []string, err error) {
	if baked := req.Offer.Baked; baked != "" {
		r, err := d.engine.inspectImage(ctx, baked, d.images.arch())
		if isMissingImage(err) {
			err = fmt.Errorf("%w: the baked image %s was deleted", driver.ErrNotFound, baked)
		}
		return baked, r.env, err
	}
	images := d.images.of(req)
	image, env, err := images.readyImage(ctx)
	if err != nil {
		return "", nil, err
	}
	image, err = images.phasedImage(ctx, image, req)
	return image, env, err
}

// launchNode returns the ID of a container that exists, or none.
func (d *containerDriver) launchNode(ctx context.Context, req driver.Launch, node driver.NodeRequest, image string, env []string) (string, error) {
	create := func(gpus []string) (string, error) {
		args, err := d.createArgs(req, node, image, gpus, time.Now())
		if err != nil {
			return "", err
		}
		return d.engine.create(ctx, args, func(r report) bool { return isNode(r, req.Pool.ID, node) })
	}
	for attempt := 1; ; attempt++ {
		var id string
		var err error
		if n := gpuCount(req.Offer.Accelerator); n > 0 && len(d.cfg.OwnGPUs) > 0 {
			id, err = d.createWithGPUs(ctx, req.Pool.ID, node, n, create)
		} else {
			id, err = create(nil)
		}
		if err != nil {
			return id, err
		}
		at, err := d.engine.start(ctx, id, nodeInput(node, req.Pool.AuthorizedKey, d.cfg.user(), env), listening)
		if err == nil {
			at.detach()
			return id, nil
		}
		if left := d.engine.discard(ctx, id); left != nil {
			return id, errors.Join(err, left)
		}
		if attempt == startAttempts || !says(err, "port is already allocated", "address already in use") {
			return "", err
		}
	}
}

// isNode reports whether a container was created for a node.
func isNode(r report, poolID string, node driver.NodeRequest) bool {
	return r.labels[labelPool] == poolID && r.labels[labelHostKey] == hostKeyLabel(node) && r.status != "exited"
}

// createArgs returns the arguments that make a node's container, with GPUs of its own. They
// contain no secret.
func (d *containerDriver) createArgs(req driver.Launch, node driver.NodeRequest, image string, gpus []string, now time.Time) ([]string, error) {
	kind := d.engine.dialect
	args := []string{"create", "--interactive", "--rm", "--name", d.cfg.NamePrefix + node.Name, "--network", cmp.Or(d.cfg.Network, networkName(req.Pool.ID))}
	if kind != apple {
		args = append(args, "--init", "--pull", "never", "--hostname", node.Name)
		if kind != nerdctl { // nerdctl resolves names, but has no aliases
			if d.cfg.Network == "" { // else another pool's node may have the same
				args = append(args, "--network-alias", "node-"+strconv.Itoa(node.Rank))
			}
			if d.cfg.NamePrefix != "" {
				args = append(args, "--network-alias", node.Name)
			}
		}
		if !d.tunnels() {
			args = append(args, "--publish", "127.0.0.1::22")
		}
	}
	args = append(args, d.labelArgs(req.Pool, now)...)
	args = append(args, d.nodeLabelArgs(req.Pool, node, gpus)...)
	if d.cfg.Platform != "" {
		args = append(args, "--platform", d.cfg.Platform)
	}
	args = append(args, d.limitArgs(req.Query)...)
	devices, err := d.deviceArgs(gpus...)
	if err != nil {
		return nil, err
	}
	args = append(args, devices...)
	for _, m := range req.Query.Mounts {
		args = append(args, "--mount", mountArg(m))
	}
	args = append(args, d.cfg.RunArgs...)
	return append(args, "--user", "0:0", "--entrypoint", "sh", image, "-c", enterScript, node.Name), nil
}

// limitArgs returns the limits of a node.
func (d *containerDriver) limitArgs(spec driver.Query) []string {
	var args []string
	bytes := func(gibs float64) string { return strconv.FormatInt(int64(math.Ceil(gibs*gib)), 10) }
	if d.engine.dialect == apple { // its nodes are virtual machines, in whole CPUs and MiB
		if spec.VCPUs > 0 {
			args = append(args, "--cpus", strconv.Itoa(int(math.Ceil(spec.VCPUs))))
		}
		if spec.MemoryGiB > 0 {
			args = append(args, "--memory", strconv.Itoa(int(math.Ceil(spec.MemoryGiB*1024)))+"M")
		}
		return args
	}
	if spec.VCPUs > 0 {
		args = append(args, "--cpus", strconv.FormatFloat(spec.VCPUs, 'f', -1, 64))
	}
	if spec.MemoryGiB > 0 {
		args = append(args, "--memory", bytes(spec.MemoryGiB), "--memory-swap", bytes(spec.MemoryGiB))
	}
	if d.cfg.ShmSizeGiB > 0 {
		args = append(args, "--shm-size", bytes(d.cfg.ShmSizeGiB))
	}
	if spec.DiskGiB > 0 && d.facts.sizedDisk {
		args = append(args, "--storage-opt", "size="+bytes(spec.DiskGiB))
	}
	return args
}

// deviceArgs returns the arguments for GPUs, those of Config.GPUs or a node's own, and for other
// devices.
func (d *containerDriver) deviceArgs(own ...string) ([]string, error) {
	var args []string
	gpus := strings.Trim(d.cfg.GPUs, `"`)
	if len(own) > 0 {
		gpus = "device=" + strings.Join(own, ",")
	}
	list, named := strings.CutPrefix(gpus, "device=")
	count, countErr := strconv.Atoi(gpus)
	switch kind := d.engine.dialect; {
	case kind == apple && (gpus != "" || len(d.cfg.OwnGPUs) > 0 || len(d.cfg.Devices) > 0 || d.cfg.ShmSizeGiB > 0):
		return nil, &driver.Error{Kind: driver.ErrUnsupported,
			Err:  errors.New("the container tool of Apple supports no GPUs, devices or shared memory size"),
			Hint: "leave GPUs, OwnGPUs, Devices and ShmSizeGiB empty, or use another engine"}
	case gpus == "":
	case !named && gpus != "all" && (countErr != nil || count < 1):
		return nil, fmt.Errorf(`%w: GPUs is %q; it must be like "all", "2" or "device=0,1"`, driver.ErrInvalid, d.cfg.GPUs)
	case kind == podman && named:
		for _, name := range strings.Split(list, ",") {
			args = append(args, "--device", "nvidia.com/gpu="+name)
		}
	case kind == podman && gpus == "all":
		args = append(args, "--device", "nvidia.com/gpu=all")
	case kind == podman:
		for i := range count {
			args = append(args, "--device", "nvidia.com/gpu="+strconv.Itoa(i))
		}
	case named:
		args = append(args, "--gpus", `"`+gpus+`"`) // without quotes the engine reads a comma as the next option
	default:
		args = append(args, "--gpus", gpus)
	}
	for _, dev := range d.cfg.Devices {
		args = append(args, "--device", dev)
	}
	return args, nil
}

// mountArg returns the value of --mount, which the engines read as a line of CSV.
func mountArg(m driver.Mount) string {
	kind := "volume"
	if strings.HasPrefix(m.Source, "/") || (len(m.Source) > 2 && m.Source[1] == ':') { // C:\data
		kind = "bind"
	}
	fields := []string{"type=" + kind, "source=" + m.Source, "target=" + m.Target}
	if m.ReadOnly {
		fields = append(fields, "readonly")
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(fields) // a bytes.Buffer never fails
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// hostKeyLabel returns the node's public host key without its comment. Describe reports it to
// programs that did not launch the node.
func hostKeyLabel(node driver.NodeRequest) string {
	fields := strings.Fields(node.HostKey.Public)
	return strings.Join(fields[:min(len(fields), 2)], " ")
}

func checkLaunch(req driver.Launch) error {
	if err := errors.Join(checkPool(req.Pool.ID), checkTags(req.Pool)); err != nil {
		return err
	}
	if req.Pool.AuthorizedKey == "" || strings.ContainsAny(strings.TrimSpace(req.Pool.AuthorizedKey), "\n\r\x00") {
		return fmt.Errorf("%w: the pool's public key is not one line", driver.ErrInvalid)
	}
	for _, n := range req.Nodes {
		if n.Name == "" || n.HostKey.Private == "" || n.HostKey.Public == "" {
			return fmt.Errorf("%w: node %d has no name or no host key", driver.ErrInvalid, n.Rank)
		}
	}
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
