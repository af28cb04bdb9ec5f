package httpclient

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// check refuses a request that cannot be written as HTTP, before the first attempt.
// net/http also refuses such a request, but its errors look like network errors.
func check(request *http.Request) error {
	if method := request.Method; method != "" && !httpguts.ValidHeaderFieldName(method) {
		return fmt.Errorf("the request's method %q is not valid", method)
	}
	for _, header := range []http.Header{request.Header, request.Trailer} {
		if err := checkHeader(header); err != nil {
			return err
		}
	}
	if uri := request.URL.RequestURI(); strings.ContainsFunc(uri, isControl) {
		return fmt.Errorf("the request's URI %q has a control character", uri)
	}
	return nil
}

// checkHeader does not print values, because a value may be secret.
func checkHeader(header http.Header) error {
	for name, values := range header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("the request's header name %q is not valid", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("the request's header %s has a control character in its value", name)
			}
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
