// Package routes reads data that gin does not export: the handlers of a route and the
// engine of a group. Only this package depends on gin's unexported fields. If the
// fields are unknown, its functions report that in a second result or return nil.
package routes

import (
	"reflect"
	"slices"

	"github.com/gin-gonic/gin"
)

// Chain is a route with its handlers, from the outermost middleware to the last handler.
type Chain struct {
	Method, Pattern string
	Handlers        gin.HandlersChain
}

// EngineOf returns the engine of a router, or nil.
func EngineOf(r gin.IRouter) *gin.Engine {
	switch r := r.(type) {
	case *gin.Engine:
		return r
	case *gin.RouterGroup:
		return engineIn(reflect.ValueOf(r).Elem())
	default:
		return nil
	}
}

func engineIn(group reflect.Value) *gin.Engine {
	engine, _ := unexported[*gin.Engine](group, "engine")
	return engine
}

// Chains returns the routes of an engine and reports whether all handlers are known.
// If not, each chain has only the engine's own middleware and the last handler.
func Chains(engine *gin.Engine) (all []Chain, whole bool) {
	all, whole = chainsIn(reflect.ValueOf(engine).Elem())
	known := exportedChains(engine)
	if !whole || len(all) != len(known) {
		return known, false
	}
	return all, true
}

// exportedChains returns the handlers that gin exports.
func exportedChains(engine *gin.Engine) (all []Chain) {
	for _, route := range engine.Routes() {
		all = append(all, Chain{route.Method, route.Path, slices.Concat(engine.Handlers, gin.HandlersChain{route.HandlerFunc})})
	}
	return all
}

// chainsIn walks the trees of an engine, one tree per method.
func chainsIn(engine reflect.Value) (all []Chain, ok bool) {
	trees := engine.FieldByName("trees")
	if trees.Kind() != reflect.Slice || trees.Type().Elem().Kind() != reflect.Struct {
		return nil, false
	}
	for i := range trees.Len() {
		tree := trees.Index(i)
		method, known := unexported[string](tree, "method")
		if !known || !collect(tree.FieldByName("root"), method, &all) {
			return nil, false
		}
	}
	return all, true
}

// collect adds the chains of a node and its children. The tree is as deep as the
// longest pattern.
func collect(pointer reflect.Value, method string, all *[]Chain) bool {
	if pointer.Kind() != reflect.Pointer || pointer.Type().Elem().Kind() != reflect.Struct || pointer.IsNil() {
		return false
	}
	node := pointer.Elem()
	pattern, hasPattern := unexported[string](node, "fullPath")
	handlers, hasHandlers := unexported[gin.HandlersChain](node, "handlers")
	children := node.FieldByName("children")
	if !hasPattern || !hasHandlers || children.Kind() != reflect.Slice {
		return false
	}
	if len(handlers) > 0 {
		*all = append(*all, Chain{method, pattern, handlers})
	}
	for i := range children.Len() {
		if !collect(children.Index(i), method, all) {
			return false
		}
	}
	return true
}

// unexported reads a field of type T of an addressable struct.
func unexported[T any](structure reflect.Value, name string) (value T, ok bool) {
	field := structure.FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[T]() {
		return value, false
	}
	return *(*T)(field.Addr().UnsafePointer()), true
}
