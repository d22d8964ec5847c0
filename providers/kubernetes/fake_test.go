package kubernetes

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

const testToken = "fake-token-1234567890"

// A fake is an API server with a scheduler, a Job controller and a garbage collector. Its answers
// follow those that the sheet recorded of Kubernetes 1.34. A pod is a real SSH node.
type fake struct {
	*fakecloud.Server
	t testing.TB
	// URL is that of the front, which also forwards ports, and authority its certificate.
	URL, authority string

	// The state, guarded by Server.Do.
	jobs      map[string]*job
	pods      map[string]*pod
	secrets   map[string]*secret
	nodes     map[string]*node
	events    []event
	classes   map[string]int // priorities
	quota     int            // pods; zero means none
	policy    string         // refuses all pods with these words
	badImage  string
	stalled   bool
	noNodes   bool // pods of no machine: only objects
	keepPods  bool // a pod that is deleted goes on
	expire    int  // lists that expire at their second page
	pageLimit int
	shift     time.Duration // of the clock
	rules     []rule        // of role.yaml
	spdy      atomic.Int32  // connections over SPDY that it serves

	mu       sync.Mutex // guards the rest
	machines map[string]*fakecloud.Machine
	refuse   map[string]bool // "websocket", "spdy", "exec"
	forwards []string        // how connections came
}

//go:embed role.yaml
var roleYAML []byte

// roleRules reads the rules of role.yaml.
func roleRules(t testing.TB) (all []rule) {
	t.Helper()
	for dec := yaml.NewDecoder(bytes.NewReader(roleYAML)); ; {
		var role struct {
			Rules []struct {
				APIGroups []string `yaml:"apiGroups"`
				Resources []string `yaml:"resources"`
				Verbs     []string `yaml:"verbs"`
			} `yaml:"rules"`
		}
		if err := dec.Decode(&role); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			all = append(all, rule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources})
		}
	}
}

const (
	opVersion   = "GET /version"
	opRules     = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
	opNodes     = "GET /api/v1/nodes"
	opAllPods   = "GET /api/v1/pods"
	opJobs      = "GET /apis/batch/v1/namespaces/{ns}/jobs"
	opJob       = "GET /apis/batch/v1/namespaces/{ns}/jobs/{name}"
	opMakeJob   = "POST /apis/batch/v1/namespaces/{ns}/jobs"
	opPatchJob  = "PATCH /apis/batch/v1/namespaces/{ns}/jobs/{name}"
	opDeleteJob = "DELETE /apis/batch/v1/namespaces/{ns}/jobs/{name}"
	opPods      = "GET /api/v1/namespaces/{ns}/pods"
	opDeletePod = "DELETE /api/v1/namespaces/{ns}/pods/{name}"
	opMakeKey   = "POST /api/v1/namespaces/{ns}/secrets"
	opEvents    = "GET /api/v1/namespaces/{ns}/events"
)

// startFake starts a cluster of two machines with two GPUs each.
func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{
		t: t, jobs: map[string]*job{}, pods: map[string]*pod{}, secrets: map[string]*secret{}, nodes: map[string]*node{}, classes: map[string]int{},
		machines: map[string]*fakecloud.Machine{}, refuse: map[string]bool{}, rules: roleRules(t), pageLimit: 500,
	}
	table := f.operations()
	ops := make([]string, 0, len(table))
	for op := range table {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts: []fakecloud.Contract{fakecloud.Unchecked(ops...)}, Authorized: fakecloud.Bearer(testToken),
		Unauthorized: failure(401, "Unauthorized", "Unauthorized"),
	})
	for op, h := range table {
		f.Handle(op, f.guarded(op, h))
	}
	for _, name := range []string{"n1", "n2"} {
		f.addNode(name, 2, map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.count": "2"})
	}
	f.front()
	return f
}

// front serves upgraded connections itself, and passes other calls on.
func (f *fake) front() {
	target, err := url.Parse(f.Server.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	proxy.Transport = transport
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	proxy.FlushInterval = -1
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/portforward") || strings.HasSuffix(r.URL.Path, "/exec") {
			f.connect(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	front.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that a test gives up
	front.StartTLS()
	f.URL = front.URL
	f.authority = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}))
	f.t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		f.settleSPDY()
		transport.CloseIdleConnections()
	})
}

// kubeconfig writes the file with which the fake is reached.
func (f *fake) kubeconfig(token string) string { return kubeconfigOf(f.t, token, f) }

// kubeconfigOf writes a file with a context for each of the fakes. Credentials are sent over TLS alone.
func kubeconfigOf(t testing.TB, token string, fakes ...*fake) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Config\ncurrent-context: team\nusers: [{name: me, user: {token: " + token + "}}]\nclusters:\n")
	names := []string{"team", "other"}
	for i, f := range fakes {
		fmt.Fprintf(&b, "- {name: %s, cluster: {server: %q, certificate-authority-data: %s}}\n", names[i], f.URL, f.authority)
	}
	b.WriteString("contexts:\n")
	for i := range fakes {
		fmt.Fprintf(&b, "- {name: %s, context: {cluster: %s, user: me, namespace: lab}}\n", names[i], names[i])
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (f *fake) config() Config { return Config{Kubeconfig: f.kubeconfig(testToken)} }

func (f *fake) addNode(name string, gpus int, labels map[string]string) *node {
	n := &node{Metadata: meta{Name: name, Labels: map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name}}}
	for k, v := range labels {
		n.Metadata.Labels[k] = v
	}
	n.Status.Allocatable = map[string]string{"cpu": "8", "memory": "64Gi", "ephemeral-storage": "200Gi"}
	if gpus > 0 {
		n.Status.Allocatable[nvidiaResource] = fmt.Sprint(gpus)
	}
	n.Status.Conditions = []condition{{Type: "Ready", Status: "True"}}
	f.Do(func() { f.nodes[name] = n })
	return n
}

// now is the server's time.
func (f *fake) now() time.Time { return time.Now().Add(f.shift).Truncate(time.Second) }

// failure is the API's answer to a failed call.
func failure(code int, reason, message string) fakecloud.Answer {
	return fakecloud.Reply(code, status{Kind: "Status", Status: "Failure", Reason: reason, Message: message, Code: code})
}

func missing(kind, name string) fakecloud.Answer {
	return failure(404, "NotFound", fmt.Sprintf("%s %q not found", kind, name))
}

// rightOf returns the right that an operation takes.
func rightOf(op string) right {
	method, path, _ := strings.Cut(op, " ")
	r := right{verb: map[string]string{"GET": "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[method]}
	if strings.HasPrefix(path, "/apis/batch") {
		r.group = "batch"
	}
	rest, named := strings.CutSuffix(path, "/{name}")
	if named && method == "GET" {
		r.verb = "get"
	}
	r.resource = rest[strings.LastIndexByte(rest, '/')+1:]
	return r
}

// allowed reports whether role.yaml grants a right.
func (f *fake) allowed(r right) bool {
	return slices.ContainsFunc(f.rules, func(u rule) bool { return u.grants(r) })
}

func forbidden(r right) fakecloud.Answer {
	return failure(403, "Forbidden", fmt.Sprintf("%s.%s is forbidden: User \"me\" cannot %s resource %q in API group %q in the namespace \"lab\"",
		r.resource, r.group, r.verb, r.resource, r.group))
}

// guarded refuses what role.yaml does not grant, and lets the controllers work before and after.
func (f *fake) guarded(op string, h fakecloud.Handler) fakecloud.Handler {
	return func(c *fakecloud.Call) fakecloud.Answer {
		if r := rightOf(op); op != opVersion && op != opRules && !f.allowed(r) {
			return forbidden(r)
		}
		if ns := c.Vars["ns"]; ns != "" && ns != "lab" {
			return missing("namespaces", ns)
		}
		f.reconcile()
		a := h(c)
		f.reconcile()
		text, err := json.Marshal(a.Body) // while nothing changes it
		if err != nil {
			f.t.Error(err)
		}
		a.Body = json.RawMessage(text)
		return a.With("Date", f.now().UTC().Format(http.TimeFormat))
	}
}

func (f *fake) operations() map[string]fakecloud.Handler {
	return map[string]fakecloud.Handler{
		opVersion: func(*fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(200, map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.4"})
		},
		opRules: func(*fakecloud.Call) fakecloud.Answer {
			return fakecloud.Reply(201, map[string]any{"kind": "SelfSubjectRulesReview", "status": map[string]any{"resourceRules": f.rules}})
		},
		opNodes: func(c *fakecloud.Call) fakecloud.Answer {
			return page(f, c, "NodeList", sorted(f.nodes), func(n *node) meta { return n.Metadata })
		},
		opAllPods: func(c *fakecloud.Call) fakecloud.Answer {
			all := slices.DeleteFunc(sorted(f.pods), func(p *pod) bool { return p.over() })
			return page(f, c, "PodList", all, func(p *pod) meta { return p.Metadata })
		},
		opJobs: func(c *fakecloud.Call) fakecloud.Answer {
			return page(f, c, "JobList", sorted(f.jobs), func(j *job) meta { return j.Metadata })
		},
		opPods: func(c *fakecloud.Call) fakecloud.Answer {
			return page(f, c, "PodList", sorted(f.pods), func(p *pod) meta { return p.Metadata })
		},
		opJob: func(c *fakecloud.Call) fakecloud.Answer {
			if j := f.jobs[c.Vars["name"]]; j != nil {
				return fakecloud.Reply(200, j)
			}
			return missing("jobs.batch", c.Vars["name"])
		},
		opMakeJob: f.makeJob, opPatchJob: f.patchJob, opDeleteJob: f.deleteJob, opDeletePod: f.deletePod, opMakeKey: f.makeSecret, opEvents: f.listEvents,
	}
}

func sorted[T any](all map[string]*T) (list []*T) {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list = append(list, all[name])
	}
	return list
}

// page answers a list: by labels, by name, and in pages.
func page[T any](f *fake, c *fakecloud.Call, kind string, all []*T, of func(*T) meta) fakecloud.Answer {
	key, value, exact := strings.Cut(c.Query.Get("labelSelector"), "=")
	name, byName := strings.CutPrefix(c.Query.Get("fieldSelector"), "metadata.name=")
	all = slices.DeleteFunc(all, func(o *T) bool {
		got, has := of(o).Labels[key]
		return key != "" && (!has || exact && got != value) || byName && of(o).Name != name
	})
	from := 0
	if c.Query.Get("continue") != "" {
		if f.expire > 0 {
			f.expire--
			return failure(410, "Expired", "The provided continue parameter is too old to display a consistent list result.")
		}
		fmt.Sscan(c.Query.Get("continue"), &from)
	}
	out := list[*T]{Kind: kind, Items: []*T{}}
	to := min(from+f.pageLimit, len(all))
	if out.Items = append(out.Items, all[from:to]...); to < len(all) {
		out.Metadata.Continue = fmt.Sprint(to)
	}
	return fakecloud.Reply(200, out)
}

func (f *fake) makeJob(c *fakecloud.Call) fakecloud.Answer {
	j := &job{}
	dec := json.NewDecoder(bytes.NewReader(c.Body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(j); err != nil || c.Query.Get("fieldValidation") != "Strict" {
		return failure(400, "BadRequest", fmt.Sprintf("strict decoding error: %v", err))
	}
	if f.jobs[j.Metadata.Name] != nil {
		return failure(409, "AlreadyExists", fmt.Sprintf("jobs.batch %q already exists", j.Metadata.Name))
	}
	j.Metadata.UID, j.Metadata.CreationTimestamp, j.Status.StartTime = rand.Text(), f.now(), f.now()
	if j.Metadata.Labels["kueue.x-k8s.io/queue-name"] != "" {
		j.Spec.Suspend = true // as Kueue's webhook does
	}
	f.jobs[j.Metadata.Name] = j
	return fakecloud.Reply(201, j)
}

func (f *fake) patchJob(c *fakecloud.Call) fakecloud.Answer {
	j := f.jobs[c.Vars["name"]]
	if j == nil {
		return missing("jobs.batch", c.Vars["name"])
	}
	if c.Header.Get("Content-Type") != "application/merge-patch+json" {
		return failure(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
	}
	var patch struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct{ ActiveDeadlineSeconds int64 }
	}
	if err := json.Unmarshal(c.Body, &patch); err != nil {
		return failure(400, "BadRequest", err.Error())
	}
	for key, value := range patch.Metadata.Annotations {
		j.Metadata.Annotations[key] = value
	}
	if patch.Spec.ActiveDeadlineSeconds > 0 {
		j.Spec.ActiveDeadlineSeconds = patch.Spec.ActiveDeadlineSeconds
	}
	return fakecloud.Reply(200, j)
}

// deleteJob orphans what the Job owns, as the API does for Jobs by default, unless the call says
// otherwise.
func (f *fake) deleteJob(c *fakecloud.Call) fakecloud.Answer {
	name := c.Vars["name"]
	j := f.jobs[name]
	if c.Missing() || j == nil {
		return missing("jobs.batch", name)
	}
	if !c.Undone() {
		var how deleteOptions
		_ = json.Unmarshal(c.Body, &how)
		if how.PropagationPolicy != "Background" {
			f.orphan(j.Metadata.UID)
		}
		delete(f.jobs, name)
	}
	return fakecloud.Reply(200, map[string]any{"kind": "Status", "status": "Success"})
}

func (f *fake) orphan(uid string) {
	for _, p := range f.pods {
		if owned(p.Metadata, uid) {
			p.Metadata.OwnerReferences = nil
		}
	}
	for _, s := range f.secrets {
		if owned(s.Metadata, uid) {
			s.Metadata.OwnerReferences = nil
		}
	}
}

func owned(m meta, uid string) bool {
	return slices.ContainsFunc(m.OwnerReferences, func(o owner) bool { return o.UID == uid })
}

func (f *fake) deletePod(c *fakecloud.Call) fakecloud.Answer {
	p := f.pods[c.Vars["name"]]
	if c.Missing() || p == nil {
		return missing("pods", c.Vars["name"])
	}
	if c.Undone() {
		return fakecloud.Reply(200, p)
	}
	var how deleteOptions
	_ = json.Unmarshal(c.Body, &how)
	if how.Preconditions != nil && how.Preconditions.UID != p.Metadata.UID {
		return failure(409, "Conflict", "Precondition failed: UID in precondition differs")
	}
	f.endPod(p, *how.GracePeriodSeconds)
	return fakecloud.Reply(200, p)
}

func (f *fake) makeSecret(c *fakecloud.Call) fakecloud.Answer {
	s := &secret{}
	dec := json.NewDecoder(bytes.NewReader(c.Body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return failure(400, "BadRequest", fmt.Sprintf("strict decoding error: %v", err))
	}
	if f.secrets[s.Metadata.Name] != nil {
		return failure(409, "AlreadyExists", fmt.Sprintf("secrets %q already exists", s.Metadata.Name))
	}
	f.secrets[s.Metadata.Name] = s
	return fakecloud.Reply(201, map[string]any{"kind": "Secret", "metadata": s.Metadata})
}

func (f *fake) listEvents(c *fakecloud.Call) fakecloud.Answer {
	name, _ := strings.CutPrefix(strings.Split(c.Query.Get("fieldSelector"), ",")[0], "involvedObject.name=")
	out := list[event]{Kind: "EventList", Items: []event{}}
	for _, e := range f.events {
		if e.InvolvedObject.Name == name {
			out.Items = append(out.Items, e)
		}
	}
	return fakecloud.Reply(200, out)
}
