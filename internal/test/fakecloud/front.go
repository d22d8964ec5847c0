package fakecloud

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Front lets other programs reach fakes. It returns the environment that directs their https requests for the hosts to
// the servers, through a proxy, with a certificate that they trust. Other hosts are unreachable. The programs must be
// Go programs on Linux, with transports that use the proxy of the environment.
func Front(t testing.TB, hosts map[string]*Server) (env []string) {
	t.Helper()
	dir := t.TempDir()
	f := &front{t: t, hosts: hosts}
	var err error
	if f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	f.ca = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fakecloud"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, f.ca, f.ca, f.key.Public(), f.key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.HandlerFunc(f.connect))
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	return []string{"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=", "SSL_CERT_FILE=" + file, "SSL_CERT_DIR=" + dir}
}

type front struct {
	t     testing.TB
	hosts map[string]*Server
	ca    *x509.Certificate
	key   *ecdsa.PrivateKey
}

// connect serves a tunnel and forwards its requests to the host's server.
func (f *front) connect(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	fake := f.hosts[host]
	if r.Method != http.MethodConnect || err != nil || fake == nil {
		http.Error(w, r.Host+" is none of this test's hosts", http.StatusBadGateway)
		return
	}
	target, err := url.Parse(fake.URL)
	if err != nil {
		f.t.Error(err)
		return
	}
	nc, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		f.t.Error(err)
		return
	}
	if _, err := nc.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		nc.Close()
		return
	}
	tunnel := tls.Server(nc, &tls.Config{GetCertificate: f.certificate})
	// Serve returns at once: the tunnel is the only connection of its listener.
	server := &http.Server{Handler: httputil.NewSingleHostReverseProxy(target), ErrorLog: log.New(io.Discard, "", 0)}
	_ = server.Serve(&single{conn: tunnel})
}

// certificate makes a certificate for the requested host.
func (f *front) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	leaf := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{hello.ServerName}, NotAfter: f.ca.NotAfter}
	der, err := x509.CreateCertificate(rand.Reader, leaf, f.ca, f.key.Public(), f.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: f.key}, nil
}

// single is a listener that accepts one connection.
type single struct{ conn net.Conn }

func (s *single) Accept() (net.Conn, error) {
	if s.conn == nil {
		return nil, net.ErrClosed
	}
	nc := s.conn
	s.conn = nil
	return nc, nil
}

func (s *single) Close() error   { return nil }
func (s *single) Addr() net.Addr { return &net.TCPAddr{} }
