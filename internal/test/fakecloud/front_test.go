package fakecloud

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

func TestFront(t *testing.T) {
	s := Start(t, Config{Contracts: []Contract{Unchecked("GET /health")}})
	s.Handle("GET /health", func(*Call) Answer { return Reply(200, "well") })
	env := map[string]string{}
	for _, line := range Front(t, map[string]*Server{"api.cloud.example": s}) {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	proxy, err := url.Parse(env["HTTPS_PROXY"])
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(env["SSL_CERT_FILE"])
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	get := func(roots *x509.CertPool, address string) (string, error) {
		tr := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get(address)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for range 2 {
		if body, err := get(trusted, "https://api.cloud.example/health"); err != nil || body != "well" {
			t.Errorf("%q, %v", body, err)
		}
	}
	if _, err := get(trusted, "https://elsewhere.example/health"); err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
		t.Errorf("another host: %v", err)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := get(x509.NewCertPool(), "https://api.cloud.example/health"); !errors.As(err, &unknown) {
		t.Errorf("without the certificate: %v", err)
	}
}
