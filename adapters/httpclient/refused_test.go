package httpclient_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 66: certificates and schemes that cannot work are not retried.
func TestErrorsThatComeBackAreNotRepeated(t *testing.T) {
	t.Parallel()
	remote := func(alert tls.AlertError) error { return &net.OpError{Op: "remote error", Err: alert} }
	type row struct {
		err      error
		repeated bool
	}
	testkit.EachInBubble(t, map[string]row{
		"certificate required":      {remote(116), false},
		"bad certificate":           {remote(42), false},
		"protocol version":          {remote(70), false},
		"an alert over QUIC":        {fmt.Errorf("handshake: %w", tls.AlertError(48)), false},
		"no TLS":                    {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, false},
		"no TLS, from net/http":     {http.ErrSchemeMismatch, false},
		"an unknown extension":      {&tls.CertificateVerificationError{Err: x509.UnhandledCriticalExtension{}}, false},
		"an unknown authority":      {x509.UnknownAuthorityError{}, false},
		"another host":              {x509.HostnameError{Certificate: new(x509.Certificate), Host: "shop.test"}, false},
		"an expired certificate":    {x509.CertificateInvalidError{Cert: new(x509.Certificate), Reason: x509.Expired}, false},
		"no roots":                  {x509.SystemRootsError{}, false},
		"a server that is too busy": {remote(80), true},
		"a damaged record":          {remote(20), true},
		"our own alert":             {&net.OpError{Op: "local error", Err: tls.AlertError(20)}, true},
		"a connection refused":      {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
	}, func(t *testing.T, row row) {
		shop := serverThat(step{err: row.err}, status(http.StatusCreated))
		got := send(transportTo(t, shop), newRequest(t, "", "{}"))
		if row.repeated {
			got.expect(t, http.StatusCreated, "")
			return
		}
		shop.expectAttempts(t, 1)
		if given := got.givenUp(t); given.Attempts != 1 || given.Err.Error() != row.err.Error() {
			t.Errorf("got %v, want 1 attempt and %v", given, row.err)
		}
	})
}

// Over a real connection, the server requires a client certificate.
func TestServerThatRequiresACertificate(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the server accepted a client without a certificate")
	}, func(s *httptest.Server) {
		// In TLS 1.3 the alert can get lost behind the request.
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}
		s.StartTLS()
	})
	got := post(t, transportTo(t, server.Client().Transport, quickly()), server.URL, "{}")
	if given := got.givenUp(t); given.Attempts != 1 || given.Timeout() || !strings.Contains(given.Error(), "remote error: tls: ") {
		t.Errorf("got %v, want one attempt and the server's alert", given)
	}
}

// Over a real connection, the URL is https and the server has only http.
func TestServerWithoutTLS(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(http.ResponseWriter, *http.Request) {}, (*httptest.Server).Start)
	got := post(t, transportTo(t, nil, quickly()), "https"+strings.TrimPrefix(server.URL, "http"), "{}")
	testkit.Equal(t, got.givenUp(t).Attempts, 1, "got.givenUp(t).Attempts")
}

// Case 66: a request that is not valid is refused before its first attempt, and its
// body is closed.
func TestInvalidRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*http.Request){
		`method "PO ST"`:                          func(r *http.Request) { r.Method = "PO ST"; r.Header.Set("Idempotency-Key", "mine") },
		`header name "X Order"`:                   func(r *http.Request) { r.Header["X Order"] = []string{"17"} },
		`header name "X-Sum\n"`:                   func(r *http.Request) { r.Trailer = http.Header{"X-Sum\n": {"17"}} },
		"header X-Order has a control character":  func(r *http.Request) { r.Header.Set("X-Order", "1\n7") },
		"header Idempotency-Key has a control ch": func(r *http.Request) { r.Header.Set("Idempotency-Key", "mine\x00") },
		`URI "/a\x7fb"`:                           func(r *http.Request) { r.URL.Opaque = "/a\x7fb" },
		`URI "/a\nb"`:                             func(r *http.Request) { r.URL.Opaque = "/a\nb" },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			shop := serverThat(status(http.StatusCreated))
			body := &upload{Reader: strings.NewReader("{}")}
			request := newUpload(t, body, 2)
			change(request)
			given := send(transportTo(t, shop), request).givenUp(t)
			shop.expectAttempts(t, 0)
			if given.Attempts != 0 || !strings.Contains(given.Error(), want) || body.closed.Load() != 1 {
				t.Errorf("got %v, want no attempt and %q; the body was closed %d times", given, want, body.closed.Load())
			}
		})
	}
	request := newRequest(t, "", "")
	request.Header.Set("X-Order", "1\t7 ä") // a valid value
	send(transportTo(t, serverThat(status(http.StatusCreated))), request).
		expect(t, http.StatusCreated, "")
	request.Body = nil
	request.Header.Set("X-Order", "\n")
	testkit.Equal(t, send(transportTo(t, nil), request).givenUp(t).Attempts, 0, "attempts of an invalid request without a body")
}
