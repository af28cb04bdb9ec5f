package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// isPermanent reports whether every repetition would end in the same error: the body
// cannot be read, the peers do not trust each other, or the server has no TLS.
func isPermanent(err error) bool {
	return has[*bodyError](err) ||
		has[*tls.CertificateVerificationError](err) || has[x509.UnknownAuthorityError](err) ||
		has[x509.HostnameError](err) || has[x509.CertificateInvalidError](err) || has[x509.SystemRootsError](err) ||
		has[tls.RecordHeaderError](err) || errors.Is(err, http.ErrSchemeMismatch) || isRefusedByAlert(err)
}

func has[E error](err error) bool {
	_, has := errors.AsType[E](err)
	return has
}

// lastingAlerts are the alerts of RFC 8446, section 6.2, that depend on the setup of client
// and server. Other alerts can come from a damaged record or a busy server.
var lastingAlerts = []tls.AlertError{
	40,                 // handshake_failure
	42, 43, 44, 45, 46, // bad, unsupported, revoked, expired, unknown certificate
	48, 49, // unknown_ca, access_denied
	70, 71, // protocol_version, insufficient_security
	112, 116, 120, // unrecognized_name, certificate_required, no_application_protocol
}

// isRefusedByAlert reports whether the server ended the TLS handshake with a lasting
// alert. Over TCP, crypto/tls gives alerts an unexported type, so the texts are compared.
func isRefusedByAlert(err error) bool {
	var text string
	if received, is := errors.AsType[*net.OpError](err); is && received.Op == "remote error" {
		text = received.Err.Error()
	} else if alert, is := errors.AsType[tls.AlertError](err); is {
		text = alert.Error()
	}
	return slices.ContainsFunc(lastingAlerts, func(alert tls.AlertError) bool { return alert.Error() == text })
}

// retryAfter parses Retry-After (RFC 9110, section 10.2.3): seconds, or a date relative to
// the response's own Date. It returns 0 for an invalid value and for a past date.
func retryAfter(header http.Header, most time.Duration) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		if seconds > uint64(most/time.Second) {
			return most
		}
		return time.Duration(seconds) * time.Second
	}
	at, _ := http.ParseTime(value) // zero for an invalid value, which has passed
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), most)
}
