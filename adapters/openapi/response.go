package openapi

import (
	"slices"
	"strconv"
)

// problemType is the media type of the engine's own form.
const problemType = "application/problem+json"

// response is a response of the engine, in the form that the document describes.
type response struct {
	status    int
	codes     []string
	isWritten bool   // by a program's problem.Writer
	name      string // of the component
	text      string // in CommonMark
	headers   []addition
	contents  []content
}

// addition is a header and the component that describes it.
type addition struct{ header, component, value string }

// content is a body of a response. Its Media Type Object needs components, so media is
// called only where the document gets the object.
type content struct {
	mediaType string
	media     func() string
}

// statusFor returns the status of the response that has the code.
func statusFor(all []response, code string) string {
	for _, r := range all {
		if slices.Contains(r.codes, code) {
			return strconv.Itoa(r.status)
		}
	}
	return ""
}
