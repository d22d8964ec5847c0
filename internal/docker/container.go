// Package docker makes a node of a container on the node's machine, with the machine's own Docker.
//
// The machine stays what the pool has rented or adopted: its supervisor keeps the lease, ends the machine, and answers
// what concerns hardware. Once it is taken over, the phase "docker" pulls the image and starts a container with all
// devices, the machine's network and shared memory, and the pool's folder at its own path. A second supervisor, with a
// folder of its own within the pool's, then runs in the container, through "docker exec" in place of a login: see
// [Client]. Tasks, functions, later phases and copies of files are its. So nothing above this package knows of containers.
//
// What ends the container does not depend on this program. supervisor.AtEnd leaves text on the machine before
// anything is pulled or made: it removes the container, what root of the container has made, and an image that the pool
// has pulled, whenever the node ends, be it closed, reaped or lapsed. The second supervisor ends its container too when
// its own lease lapses, in case the machine's Docker does not answer then, and so does the container itself once the
// pool's folder is gone.
//
// A registry's login is an environment variable of the step that pulls, as a task's secret is, and for that time in a
// folder for Docker's configuration, in memory if the machine has such a file system.
package docker

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

//go:embed docker.sh
var script string

// Phase is the name of the phase.
const Phase = "docker"

const (
	// LabelPool and LabelNode name a container's pool and node. They are none of the labels of providers/container, whose
	// lists must not have these containers.
	LabelPool = "gputrain.docker.pool"
	LabelNode = "gputrain.docker.node"
	// pulledName is the further name of an image that a pool has pulled. No engine asks a registry for it.
	pulledName = "localhost/gputrain/pulled"
	// requestFile begins the names of files in the t/ of the pool's folder, which say how far the request to make the
	// container is.
	requestFile = "docker"
)

// A Pool is what the containers of a pool share.
type Pool struct {
	// ID is the pool's.
	ID string
	// Reference is the image that the user has named.
	Reference Reference
	// Login returns the user and the password for the image's registry. Nil means that there are none.
	Login func() (user string, password driver.Secret)
	// Mounts are paths of the machine that the containers have, too.
	Mounts []string
	// Timeout bounds the phase.
	Timeout time.Duration

	pin pin
}

// A Machine is where a container is to run.
type Machine struct {
	// Node is the machine's supervisor.
	*supervisor.Node
	// Name is the node's.
	Name string
	// KeepCache leaves on the machine what the next pool there can use.
	KeepCache bool
	// NeedsGPUs makes it an error if NVIDIA's GPUs cannot be given to a container.
	NeedsGPUs bool
	// Output receives what the phase prints.
	Output io.Writer
}

// A Container is a running container.
type Container struct {
	// Name is the container's.
	Name string
	// Image is what it runs.
	Image Image
	// Root is the pool's folder in the container, and Cache its folder for files that outlive the pool, or "".
	Root, Cache string

	engine string // the words of the engine's command, for a shell
}

// Pin makes the pool's image the one that an earlier program has used.
func (p *Pool) Pin(i Image) { p.pin.agree(i) }

// Start makes the image the pool's if there is none, and starts a container of the pool's image. cached reports that
// the machine had the image.
func (p *Pool) Start(ctx context.Context, m Machine) (c *Container, cached bool, _ *bootstrap.Error) {
	s := &setup{pool: p, m: m, until: time.Now().Add(p.Timeout)}
	for tries := 1; ; tries++ {
		err := s.prepare(ctx)
		if err == nil {
			err = s.start(ctx)
		}
		if err == nil {
			return s.container(), !s.pulled, nil
		}
		if err.ExitCode != imageGone || tries == 3 { // a pool that ended has removed the image before the container was made
			return nil, false, s.explain(err)
		}
		s.found = nil
	}
}

// Find returns the container of a node that an earlier program has made, or nil if it does not run.
func (p *Pool) Find(ctx context.Context, m Machine) (*Container, error) {
	s := &setup{pool: p, m: m, until: time.Now().Add(p.Timeout)}
	lines, err := s.step(ctx, "find", nil, containerName(m.Name))
	if err != nil {
		return nil, s.explain(err)
	}
	for _, l := range lines {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "container" && f[1] == "true" && digestForm.MatchString(f[2]) {
			s.image = Image{ID: f[2]}
			return s.container(), nil
		}
	}
	return nil, nil
}

// A setup is one Start on one machine.
type setup struct {
	pool  *Pool
	m     Machine
	until time.Time

	engine   string    // of the last answer
	platform string    // of the engine
	found    *found    // the image under the name that was last asked for; nil if it is not there
	named    Reference // that name
	pulled   bool
	image    Image
}

// A found image is an image that the machine's engine has, with its platform.
type found struct {
	Image
	platform string
}

// prepare gets the pool's image.
func (s *setup) prepare(ctx context.Context) *bootstrap.Error {
	s.named = s.pool.Reference
	if want, ok := s.pool.pin.get(); ok && want.Digest != "" {
		s.named.Tag, s.named.Digest = "", want.Digest
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	if s.found == nil || s.found.Digest != "" && s.named.Digest == "" { // a tag may have moved; an image in no registry has no digest
		if err := s.pull(ctx); err != nil {
			return err
		}
	}
	if s.found.platform != s.platform {
		return &bootstrap.Error{Phase: Phase, ExitCode: otherPlatform, Err: fmt.Errorf("the image is for %s, and the node's Docker runs %s", s.found.platform, s.platform)}
	}
	want := s.pool.pin.agree(s.found.Image)
	switch {
	case s.found.is(want):
		s.image = s.found.Image
		return nil
	case want.Digest == "":
		return &bootstrap.Error{Phase: Phase, ExitCode: -1, Err: &driver.Error{
			Kind: driver.ErrInvalid, Err: fmt.Errorf("%s is %s here, and %s on the pool's first node", s.pool.Reference, s.found.ID, want.ID),
			Hint: "push the image to a registry, so that all nodes have the same",
		}}
	}
	s.named.Tag, s.named.Digest = "", want.Digest // the tag has moved since another node asked
	if err := s.look(ctx); err != nil {
		return err
	}
	if s.found == nil {
		if err := s.pull(ctx); err != nil {
			return err
		}
	}
	s.image = s.found.Image
	return nil
}

// look finds the engine, and what it has under the name.
func (s *setup) look(ctx context.Context) *bootstrap.Error {
	lines, err := s.step(ctx, "look", nil, s.named.String())
	if err != nil {
		return err
	}
	return s.read(lines)
}

// pull pulls the image. What removes it is on the machine before.
func (s *setup) pull(ctx context.Context) *bootstrap.Error {
	if err := s.arm(ctx); err != nil {
		return err
	}
	secrets, err := s.pool.auth()
	if err != nil {
		return &bootstrap.Error{Phase: Phase, ExitCode: -1, Err: err}
	}
	mark := pulledName
	if s.m.KeepCache {
		mark = ""
	}
	lines, failed := s.step(ctx, "pull", secrets, s.m.Name, s.m.Facts().Root, s.named.String(), mark)
	if failed != nil {
		return failed
	}
	s.pulled = true
	if failed = s.read(lines); failed == nil && s.found == nil {
		failed = &bootstrap.Error{Phase: Phase, ExitCode: imageGone, Err: errAnswer}
	}
	return failed
}

// start makes the container.
func (s *setup) start(ctx context.Context) *bootstrap.Error {
	if err := s.arm(ctx); err != nil {
		return err
	}
	wanted, cache := "0", ""
	if s.m.NeedsGPUs {
		wanted = "1"
	}
	if s.m.KeepCache {
		cache = s.m.Facts().CacheDir
	}
	_, err := s.step(ctx, "start", nil, append([]string{containerName(s.m.Name), s.m.Facts().Root + "/t/" + requestFile, wanted, cache}, s.createArgs()...)...)
	return err
}

// createArgs returns the arguments of docker create, but for devices and limits. They contain no secret.
func (s *setup) createArgs() []string {
	facts := s.m.Facts()
	args := []string{
		"--name", containerName(s.m.Name), "--label", LabelPool + "=" + s.pool.ID, "--label", LabelNode + "=" + s.m.Name,
		"--rm", "--network", "host", "--ipc", "host", "--userns", "host", "--security-opt", "label=disable", "--user", "0:0", "--workdir", "/",
	}
	folders := append([]string{facts.Root}, s.pool.Mounts...)
	if s.m.KeepCache {
		folders = append(folders, facts.CacheDir)
	}
	for _, f := range folders {
		args = append(args, "--mount", mount(f))
	}
	if len(facts.Visible) > 0 {
		args = append(args, "--env", "CUDA_VISIBLE_DEVICES="+strings.Join(facts.Visible, ","))
	}
	return append(args, "--entrypoint", "sh", s.image.ID, "-c", stay, facts.Root+"/t")
}

// stay is what the container itself runs: it ends within a minute after the pool's folder was removed, by whatever.
const stay = `trap 'exit 0' TERM
while [ -e "$0" ]; do
	sleep 60 &
	wait "$!"
done`

// container returns the container that was started or found.
func (s *setup) container() *Container {
	facts := s.m.Facts()
	c := &Container{Name: containerName(s.m.Name), Image: s.image, Root: within(facts), engine: s.engine}
	if s.m.KeepCache { // a Python environment fits its image alone
		c.Cache = path.Join(facts.CacheDir, "docker-"+strings.TrimPrefix(s.image.ID, "sha256:")[:16])
	}
	return c
}

// within returns the folder of the node in the container.
func within(host supervisor.Facts) string { return host.Root + "/in" }

func containerName(node string) string { return "gputrain-docker-" + node }

// mount returns the value of --mount that gives a folder to a container at the same path: a line of CSV.
func mount(folder string) string {
	quoted := func(field string) string { return `"` + strings.ReplaceAll(field, `"`, `""`) + `"` }
	return "type=bind," + quoted("source="+folder) + "," + quoted("target="+folder)
}

// auth returns the secret of the step that pulls.
func (p *Pool) auth() (map[string]string, error) {
	if p.Login == nil {
		return nil, nil
	}
	config, err := Config(p.Reference, p.Login)
	return map[string]string{"GPUTRAIN_DOCKER_AUTH": config}, err
}

// Config returns a Docker configuration with a login for an image's registry: the content of a config.json.
func Config(image Reference, login func() (user string, password driver.Secret)) (string, error) {
	host := image.Registry()
	if host == "docker.io" {
		host = "https://index.docker.io/v1/" // Docker's own name for it
	}
	type auth struct {
		Auth string `json:"auth"`
	}
	user, password := login()
	text, err := json.Marshal(map[string]map[string]auth{"auths": {host: {base64.StdEncoding.EncodeToString([]byte(user + ":" + string(password)))}}})
	return string(text), err
}

// Secrets returns the forms that a login has in a Docker configuration.
func Secrets(user string, password driver.Secret) map[string]driver.Secret {
	return map[string]driver.Secret{
		"the registry's password": password, "the registry's login": driver.Secret(base64.StdEncoding.EncodeToString([]byte(user + ":" + string(password)))),
	}
}

// step runs a command of docker.sh on the machine, and returns the lines of its answer.
func (s *setup) step(ctx context.Context, command string, secrets map[string]string, args ...string) ([]string, *bootstrap.Error) {
	output := s.m.Output
	if output == nil {
		output = io.Discard
	}
	answer, err := bootstrap.Step{
		Phase: Phase, ID: "docker-" + command + "-" + newAttempt(), Name: "docker.sh", Text: script, Args: append([]string{command}, args...),
		Secrets: secrets, Timeout: max(time.Until(s.until), time.Second), Output: output,
	}.Run(ctx, s.m.Node)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(answer, "\n")
	for _, l := range lines {
		if words, ok := strings.CutPrefix(l, "engine "); ok {
			if s.engine, ok = quoted(words); !ok {
				return nil, &bootstrap.Error{Phase: Phase, ExitCode: -1, Err: errAnswer}
			}
		}
	}
	return lines, nil
}

// quoted returns words for a shell.
func quoted(words string) (string, bool) {
	all := strings.Fields(words)
	for i, w := range all {
		q, err := supervisor.Quote(w)
		if err != nil {
			return "", false
		}
		all[i] = q
	}
	return strings.Join(all, " "), len(all) > 0
}

var errAnswer = errors.New("the node's answer is not that of the phase's script; is docker there another program?")

// read reads the answer of look and pull.
func (s *setup) read(lines []string) *bootstrap.Error {
	s.found = nil
	for _, l := range lines {
		f := strings.Fields(l)
		switch {
		case len(f) == 2 && f[0] == "platform":
			s.platform = f[1]
		case len(f) >= 3 && f[0] == "image" && digestForm.MatchString(f[1]):
			s.found = &found{Image: Image{ID: f[1], Digest: digestOf(s.named, f[3:])}, platform: f[2]}
		}
	}
	if s.engine == "" || s.platform == "" {
		return &bootstrap.Error{Phase: Phase, ExitCode: -1, Err: errAnswer}
	}
	return nil
}

// digestOf returns the digest by which an image was pulled under a name, of all its digests, or "". A name that has a
// digest fixes it, whatever else the node says: the pool's other nodes pull by what the first one has found.
func digestOf(named Reference, digests []string) string {
	if named.Digest != "" {
		return named.Digest
	}
	for _, text := range digests {
		if r, err := ParseReference(text); err == nil && r.Digest != "" && r.canonical() == named.canonical() {
			return r.Digest
		}
	}
	return ""
}

// arm leaves on the machine what ends the container there.
func (s *setup) arm(ctx context.Context) *bootstrap.Error {
	names := []string{s.named.String()}
	if s.found != nil && s.found.Digest != "" {
		names = append(names, Reference{Name: s.named.Name, Digest: s.found.Digest}.String())
	}
	names = append(names, s.pool.Reference.String())
	text, err := endText(s.engine, containerName(s.m.Name), s.m.Name, within(s.m.Facts()), names)
	if err == nil {
		err = supervisor.AtEnd(ctx, s.m.Node, text)
	}
	if err != nil {
		return &bootstrap.Error{Phase: Phase, ExitCode: -1, Err: fmt.Errorf("leaving what ends the container: %w", err)}
	}
	return nil
}

// endText returns shell text that removes the container, and what it has made, from the machine. It runs in t/ of the
// pool's folder.
func endText(engine, container, node, root string, images []string) (string, error) {
	var words []string
	for _, w := range append([]string{container, node, root}, images...) {
		q, err := supervisor.Quote(w)
		if err != nil {
			return "", err
		}
		words = append(words, q)
	}
	return "d() { " + engine + ` "$@"; }
set -- ` + strings.Join(words, " ") + `
name=$1 node=$2 root=$3
shift 3
image=$(d container inspect --format '{{.Image}}' "$name" 2>/dev/null) || image=
[ -n "$image" ] || image=$(d image inspect --format '{{.Id}}' "$1" 2>/dev/null) || image=
# What root of the container has made, this user may not be able to remove.
[ ! -e "$root" ] || d exec "$name" rm -rf "$root" >/dev/null 2>&1
d rm -f -v "$name" >/dev/null 2>&1
if [ -e ` + requestFile + `.begun ] && [ ! -e ` + requestFile + `.done ]; then
	sleep 2 # a request to make it may be under way
	d rm -f -v "$name" >/dev/null 2>&1
fi
for left in 1 2 3 4 5 6 7 8 9 10; do
	left=$(d ps --all --quiet --filter "name=^/$name\$") || exit 1
	[ -n "$left" ] || break
	sleep 1 # Docker removes it
done
[ -z "$left" ] || { echo "the container $name is left"; exit 1; }
rm -rf "$root" 2>/dev/null
if [ -e "$root" ] && [ -n "$image" ]; then
	d run --rm --network none --userns host --security-opt label=disable --user 0:0 --mount "type=bind,\"source=${root%/in}\",\"target=${root%/in}\"" --entrypoint rm "$image" -rf "$root"
fi
mark=` + pulledName + `:${image#sha256:}
ours=
if [ -e ` + requestFile + `.had ]; then
	grep -qxF "$image" ` + requestFile + `.had || ours=1
fi
d image inspect "$mark" >/dev/null 2>&1 && ours=1
if [ -n "$image" ] && [ -n "$ours" ] && [ -z "$(d ps --all --quiet --filter "ancestor=$image")" ]; then
	d rmi "$mark" >/dev/null 2>&1
	for name; do d rmi "$name" >/dev/null 2>&1; done
fi
rm -rf "/dev/shm/gputrain-docker-$node".* "${XDG_RUNTIME_DIR:-/nonexistent}/gputrain-docker-$node".* 2>/dev/null
:
`, nil
}

// Exit statuses of docker.sh, and of this package.
const (
	otherPlatform = 106
	imageGone     = 113
)

// A failing is what an exit status of docker.sh means.
type failing struct {
	kind      error
	why, hint string // the image's name is %[1]s, and its registry's %[2]s
}

var failings = map[int]failing{
	101:           {driver.ErrUnsupported, "the node has no Docker, and it cannot be installed", "install it there (https://docs.docker.com/engine/install), or log in as root or as a user with sudo"},
	102:           {driver.ErrUnavailable, "the node's Docker daemon does not answer", "start it there: systemctl start docker"},
	103:           {driver.ErrAuth, "the login may not use the node's Docker", "add its user to the group docker there, or allow it sudo without a password"},
	104:           {driver.ErrAuth, "%[2]s refuses to give the image %[1]s", "set Image.DockerUser and DockerPassword (for Attach by WithSecrets), or correct the name: a registry refuses in the same way what it does not have"},
	105:           {driver.ErrNotFound, "%[2]s has no image %[1]s", "correct Image.Docker"},
	otherPlatform: {driver.ErrUnsupported, "the image %[1]s does not run on this node's platform", "name an image that is made for it, or set Spec.Arch"},
	107:           {syscall.ENOSPC, "the node's disk has no room for the image %[1]s", "ask for more by Spec.DiskGiB, or free some there: docker system df"},
	108:           {driver.ErrUnavailable, "the node cannot get the image %[1]s from %[2]s", "the node needs a way to the registry; the output has what Docker reports"},
	109:           {driver.ErrRateLimited, "%[2]s limits how often this node's address may pull", "log in: set Image.DockerUser and DockerPassword"},
	110:           {driver.ErrUnsupported, "the image %[1]s has no shell that runs", "use an image with a POSIX shell: one that is not distroless"},
	111:           {driver.ErrUnsupported, "the node's Docker cannot give NVIDIA's GPUs to containers", "install NVIDIA's container toolkit there (https://docs.nvidia.com/datacenter/cloud-native/container-toolkit), or log in as root"},
	112:           {nil, "Docker does not do what is asked of it", "the output has what it reports"},
	imageGone:     {driver.ErrUnavailable, "the image %[1]s is gone from the node", "another program there has removed it meanwhile"},
}

// explain gives an error that docker.sh has numbered its kind, and tells what to do.
func (s *setup) explain(err *bootstrap.Error) *bootstrap.Error {
	f, known := failings[err.ExitCode]
	if !known {
		return err
	}
	why := errors.New(f.why)
	if strings.Contains(f.why, "%") {
		why = fmt.Errorf(f.why, s.pool.Reference, s.pool.Reference.Registry())
	}
	if err.ExitCode == otherPlatform && len(err.Tail) == 0 {
		why = fmt.Errorf("%w: %w", why, err.Err)
	}
	err.Err = &driver.Error{Kind: f.kind, Err: why, Hint: f.hint}
	return err
}

// command returns the command that runs another in the container, with pipes.
func (c *Container) command(command string) (string, error) { return c.exec("-i", command) }

// exec returns the command that runs another in the container, with these options.
func (c *Container) exec(options, command string) (string, error) {
	q, err := supervisor.Quote(command)
	if err != nil {
		return "", err
	}
	return "exec " + c.engine + " exec " + options + " " + c.Name + " sh -c " + q, nil
}

// Supervision completes the configuration of the supervisor in the container.
func (c *Container) Supervision(cfg supervisor.Config) supervisor.Config {
	cfg.Root, cfg.Cache, cfg.TTL, cfg.Disk, cfg.Disposable = c.Root, c.Cache, 0, false, true
	cfg.Renewed = nil // the machine's supervisor tells it
	// Process 1 is the engine's init, or else the shell that stays: its end is the container's.
	cfg.SelfDestruct = "GPUTRAIN_REMOVE=1; trap 'kill -s TERM 1' EXIT"
	return cfg
}

// Mounts returns the paths that containers have beside the pool's folder.
func Mounts(mounts []driver.Mount) (paths []string) {
	for _, m := range mounts {
		if !slices.Contains(paths, m.Target) {
			paths = append(paths, m.Target)
		}
	}
	return paths
}
