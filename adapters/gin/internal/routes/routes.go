// Package routes reads what gin does not tell: which handlers a route has, and
// which engine a group belongs to. It is the only place that depends on gin's
// unexported fields; where they are not as expected it says so, and nothing else.
package routes

import (
	"reflect"
	"slices"

	"github.com/gin-gonic/gin"
)

// Chain is a route with its handlers, from the outermost middleware inwards.
type Chain struct {
	Method, Pattern string
	Handlers        gin.HandlersChain
}

// EngineOf returns the engine that a router declares its routes on, or nil.
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

// Chains returns the routes of an engine, and whether their handlers are complete.
// If not, they are the engine's own middleware and the last handler.
func Chains(engine *gin.Engine) (all []Chain, whole bool) {
	all, whole = chainsIn(reflect.ValueOf(engine).Elem())
	known := told(engine)
	if !whole || len(all) != len(known) {
		return known, false
	}
	return all, true
}

// told returns what gin tells everybody.
func told(engine *gin.Engine) (all []Chain) {
	for _, route := range engine.Routes() {
		all = append(all, Chain{route.Method, route.Path, slices.Concat(engine.Handlers, gin.HandlersChain{route.HandlerFunc})})
	}
	return all
}

// chainsIn walks the trees of an engine, one for each method.
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

// collect adds the chains of a node and of its children. The tree is as deep as
// the longest pattern.
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

// unexported reads a field of an addressable struct, if it is of the type T.
func unexported[T any](structure reflect.Value, name string) (value T, ok bool) {
	field := structure.FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[T]() {
		return value, false
	}
	return *(*T)(field.Addr().UnsafePointer()), true
}
