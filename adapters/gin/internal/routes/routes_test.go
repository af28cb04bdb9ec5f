package routes

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/internal/testkit"
)

func handle(*gin.Context) {}

func before(*gin.Context) {}

func around(*gin.Context) {}

func routed(t *testing.T) *gin.Engine {
	t.Helper()
	r := gin.New()
	r.Use(handle)
	r.GET("/", handle)
	r.POST("/payments", before, handle)
	r.POST("/payments/:id/refund", handle)
	r.POST("/pay", handle)
	r.POST("/files/*rest", handle)
	v1 := r.Group("/v1", before, around)
	v1.PATCH("/members/:id", handle)
	v1.Group("/deep", handle).DELETE("/:a/:b", handle)
	return r
}

// The test pins the shape of gin's tree. If it fails with a new version of gin, Audit
// misses middleware, and Chains must learn the new shape.
func TestChains(t *testing.T) {
	t.Parallel()
	r := routed(t)
	chains, whole := Chains(r)
	if !whole {
		t.Fatal("this version of gin has another shape")
	}
	got := make([]string, 0, len(chains))
	for _, c := range chains {
		got = append(got, fmt.Sprint(c.Method, " ", c.Pattern, " ", len(c.Handlers)))
	}
	slices.Sort(got)
	want := []string{
		"DELETE /v1/deep/:a/:b 5", "GET / 2", "PATCH /v1/members/:id 4",
		"POST /files/*rest 2", "POST /pay 2", "POST /payments 3", "POST /payments/:id/refund 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	testkit.Equal(t, len(chains), len(r.Routes()), "chains of the routes")
}

func TestEngineOf(t *testing.T) {
	t.Parallel()
	r := routed(t)
	for name, router := range map[string]gin.IRouter{"engine": r, "group": r.Group("/a"), "nested group": r.Group("/a").Group("/b")} {
		testkit.Equal(t, EngineOf(router), r, "the %s's engine is not found", name)
	}
	if EngineOf(struct{ gin.IRouter }{r}) != nil {
		t.Error("a router that is not gin's has an engine")
	}
}

// Chains notices each possible change of gin.
func TestUnknownShapes(t *testing.T) {
	t.Parallel()
	type node struct {
		fullPath string
		handlers gin.HandlersChain
		children []*node
	}
	type tree struct {
		method string
		root   *node
	}
	type tail struct {
		fullPath string
		handlers gin.HandlersChain
		children []int
	}
	shapes := map[string]any{
		"no trees":   &struct{ forest []tree }{},
		"a map":      &struct{ trees map[string]tree }{},
		"pointers":   &struct{ trees []*tree }{},
		"no method":  &struct{ trees []struct{ root *node } }{trees: make([]struct{ root *node }, 1)},
		"no root":    &struct{ trees []struct{ method string } }{trees: make([]struct{ method string }, 1)},
		"a nil root": &struct{ trees []tree }{trees: make([]tree, 1)},
		"another node": &struct {
			trees []struct {
				method string
				root   *tree
			}
		}{trees: []struct {
			method string
			root   *tree
		}{{root: new(tree)}}},
		"other children": &struct {
			trees []struct {
				method string
				root   *tail
			}
		}{trees: []struct {
			method string
			root   *tail
		}{{root: &tail{"/a", nil, []int{1}}}}},
	}
	for name, shape := range shapes {
		if chains, ok := chainsIn(reflect.ValueOf(shape).Elem()); ok {
			t.Errorf("%s: taken for gin's shape: %v", name, chains)
		}
	}
	right := &struct{ trees []tree }{trees: []tree{{"POST", &node{"/a", gin.HandlersChain{handle}, nil}}}}
	if chains, ok := chainsIn(reflect.ValueOf(right).Elem()); !ok || len(chains) != 1 || chains[0].Pattern != "/a" {
		t.Errorf("the valid shape gives %v, %v", chains, ok)
	}
	if engineIn(reflect.ValueOf(&struct{ engine int }{1}).Elem()) != nil {
		t.Error("an int is taken for an engine")
	}
}

// Without the tree, Chains returns the handlers that gin exports.
func TestFallback(t *testing.T) {
	t.Parallel()
	chains := exportedChains(routed(t))
	if len(chains) != 7 {
		t.Fatalf("got %d chains, want 7", len(chains))
	}
	for _, c := range chains {
		if len(c.Handlers) != 2 || c.Pattern == "" || c.Method == "" {
			t.Errorf("%s %s has %d handlers, want the router's own middleware and the last", c.Method, c.Pattern, len(c.Handlers))
		}
	}
}
