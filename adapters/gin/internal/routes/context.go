package routes

import (
	"bytes"
	"io"
	"reflect"
	"unsafe"

	"github.com/gin-gonic/gin"
)

// The offsets of two unexported fields of gin.Context. fieldsKnown is false if this
// version of gin has other fields.
var handlersAt, indexAt, fieldsKnown = contextFields(reflect.TypeFor[gin.Context]())

func contextFields(context reflect.Type) (handlers, index uintptr, known bool) {
	h, hasHandlers := context.FieldByName("handlers")
	i, hasIndex := context.FieldByName("index")
	known = hasHandlers && hasIndex && h.Type == reflect.TypeFor[gin.HandlersChain]() && i.Type == reflect.TypeFor[int8]()
	return h.Offset, i.Offset, known
}

// Rest returns the handlers that c.Next would call. It returns false if this version
// of gin has unknown fields.
func Rest(c *gin.Context) (gin.HandlersChain, bool) {
	if !fieldsKnown {
		return nil, false
	}
	handlers, index := chainOf(c)
	return handlers[min(index+1, len(handlers)):], true
}

// Running returns the handler that gin has called, or nil: gin has called none, c is
// aborted, or this version of gin has unknown fields.
func Running(c *gin.Context) gin.HandlerFunc {
	if !fieldsKnown {
		return nil
	}
	handlers, index := chainOf(c)
	if index < 0 || index >= len(handlers) {
		return nil
	}
	return handlers[index]
}

// chainOf must only be called if fieldsKnown is true.
func chainOf(c *gin.Context) (handlers gin.HandlersChain, index int) {
	//nolint:gosec // contextFields has checked the types
	handlers = *(*gin.HandlersChain)(unsafe.Add(unsafe.Pointer(c), handlersAt))
	//nolint:gosec // contextFields has checked the types
	index = int(*(*int8)(unsafe.Add(unsafe.Pointer(c), indexAt)))
	return handlers, index
}

// PutBodyBack puts back the body that ShouldBindBodyWith has read, and whose bytes gin keeps,
// unless other middleware has put a body there.
func PutBodyBack(c *gin.Context) {
	kept, _ := c.Get(gin.BodyBytesKey)
	body, isKept := kept.([]byte)
	if !isKept {
		return
	}
	first, there := make([]byte, 1), c.Request.Body
	if _, err := io.ReadFull(there, first); err != nil {
		c.Request.Body = io.NopCloser(bytes.NewReader(body))
		return
	}
	c.Request.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first), there), there}
}
