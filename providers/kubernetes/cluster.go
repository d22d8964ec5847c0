package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // logins that a kubeconfig can name
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A cluster is one cluster with the namespace that nodes are made in.
type cluster struct {
	name      string // of the context: the region
	namespace string
	server    string // the API server's URL
	inside    bool   // this program runs in the cluster
	rest      *rest.Client
	config    func() *restclient.Config // a func, so that no credential prints
	closeIdle func()
}

// inCluster is the region of a cluster that is known by this program's own service account.
const inCluster = "in-cluster"

// account names the cluster and its namespace, whatever the context is called.
func (k *cluster) account() string { return k.server + "/" + k.namespace }

// key identifies the account in the IDs of machines.
func (k *cluster) key() string {
	sum := sha256.Sum256([]byte(k.account()))
	return hex.EncodeToString(sum[:4])
}

// clusters reads the clusters of the contexts.
func (c Config) clusters() ([]*cluster, error) {
	raw, err := c.kubeconfig()
	if err != nil {
		return nil, err
	}
	contexts := c.Contexts
	if len(contexts) == 0 {
		if clientcmdapi.IsConfigEmpty(raw) || raw.CurrentContext == "" && len(raw.Contexts) == 0 {
			k, err := c.ownCluster()
			return []*cluster{k}, err
		}
		contexts = []string{raw.CurrentContext}
	}
	var all []*cluster
	for _, name := range contexts {
		k, err := c.ofContext(raw, name)
		if err != nil {
			for _, k := range all {
				k.close()
			}
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

// kubeconfig reads the files as kubectl does. Without any it is empty.
func (c Config) kubeconfig() (*clientcmdapi.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.WarnIfAllMissing = false
	if c.Kubeconfig != "" {
		rules.Precedence = filepath.SplitList(c.Kubeconfig)
		for _, file := range rules.Precedence {
			if _, err := os.Stat(file); err != nil {
				return nil, &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("Config.Kubeconfig: %w", err)}
			}
		}
	}
	raw, err := rules.Load()
	if err != nil { // its text may have parts of the file
		return nil, &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("the kubeconfig %s cannot be read", strings.Join(rules.Precedence, ", ")),
			Hint: "see that kubectl config view works"}
	}
	return raw, nil
}

func (c Config) ofContext(raw *clientcmdapi.Config, name string) (*cluster, error) {
	if raw.Contexts[name] == nil {
		known := make([]string, 0, len(raw.Contexts))
		for other := range raw.Contexts {
			known = append(known, other)
		}
		slices.Sort(known)
		return nil, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("the kubeconfig has no context %q; it has %q", name, known), Hint: "set Contexts"}
	}
	client := clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, nil)
	config, err := client.ClientConfig()
	if err != nil {
		return nil, &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("the context %s: %w", name, err)}
	}
	namespace, _, err := client.Namespace()
	if err != nil {
		return nil, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("the context %s: %w", name, err)}
	}
	return c.connect(name, cmp.Or(c.Namespace, namespace), config)
}

// namespaceFile has the namespace of the pod that this program runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func (c Config) ownCluster() (*cluster, error) {
	config, err := restclient.InClusterConfig()
	if err != nil {
		return nil, &driver.Error{Kind: driver.ErrAuth, Err: errors.New("there is no kubeconfig, and this program does not run in a cluster"),
			Hint: "set KUBECONFIG or Config.Kubeconfig, or run this program in a pod with a service account"}
	}
	namespace, _ := os.ReadFile(namespaceFile) // without it, the default one
	k, err := c.connect(inCluster, cmp.Or(c.Namespace, strings.TrimSpace(string(namespace)), "default"), config)
	if k != nil {
		k.inside = true
	}
	return k, err
}

// connect makes the client of a cluster. It contacts nothing. The transport is its own, so that
// closing it closes no connection of another driver.
func (c Config) connect(name, namespace string, config *restclient.Config) (*cluster, error) {
	invalid := func(err error) error {
		return &driver.Error{Kind: driver.ErrAuth, Err: fmt.Errorf("the context %s: %w", name, err)}
	}
	server, _, err := restclient.DefaultServerUrlFor(config)
	if err != nil {
		return nil, invalid(err)
	}
	settings, err := config.TransportConfig()
	if err != nil {
		return nil, invalid(err)
	}
	tlsConfig, err := transport.TLSConfigFor(settings)
	if err != nil {
		return nil, invalid(err)
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig, base.MaxIdleConnsPerHost = tlsConfig, launchesAtOnce
	if config.Proxy != nil {
		base.Proxy = config.Proxy
	}
	signed, err := transport.HTTPWrappersForConfig(settings, base)
	if err != nil {
		return nil, invalid(err)
	}
	address := strings.TrimRight(server.String(), "/")
	client, err := rest.New(rest.Config{
		BaseURL: address, HTTPClient: &http.Client{Transport: signed}, Timeout: cmp.Or(c.RequestTimeout, c.complete().RequestTimeout),
		FirstWait: cloud.Second / 2, Fault: faultOf,
	})
	if err != nil {
		return nil, invalid(err)
	}
	client.Hide(config.BearerToken, config.Password)
	return &cluster{
		name: name, namespace: cmp.Or(namespace, "default"), server: address, rest: client,
		config: func() *restclient.Config { return config }, closeIdle: base.CloseIdleConnections,
	}, nil
}

func (k *cluster) close() { k.closeIdle() }

// check asks the cluster whether it can be used: for its version, and for the rights.
func (k *cluster) check(ctx context.Context, c Config) error {
	var version struct{ GitVersion string }
	if err := k.rest.Do(ctx, http.MethodGet, "/version", nil, &version); err != nil {
		return err
	}
	if version.GitVersion == "" {
		return odd("%s/version names no version", k.server)
	}
	return k.checkRights(ctx, c)
}
