package openapi

// problemType is the media type of the engine's own form.
const problemType = "application/problem+json"

// response is a response of the engine, in the form that the document describes.
type response struct {
	status   int
	name     string // of the component
	text     string // in CommonMark
	headers  []addition
	contents []content
}

// addition is a header and the component that describes it.
type addition struct{ header, component, value string }

// content is a body of a response. Its Media Type Object needs components, so media is
// called only where the document gets the object.
type content struct {
	mediaType string
	media     func() string
}
