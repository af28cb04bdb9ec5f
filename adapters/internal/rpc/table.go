package rpc

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// Guard has the policies of a program's procedures. It is immutable and safe for
// concurrent use.
type Guard struct {
	engine  *core.Engine
	methods map[string]*Method
	rows    []policy.Declaration
}

// Method is a guarded procedure.
type Method struct {
	procedure string
	route     *core.Route
	maxBytes  int64 // the policy's MaxRequestBytes
	response  protoreflect.MessageType
}

// NewGuard compiles a table, which the program declares at the place, for an engine. A row
// is "POST /shop.v1.Payments/Pay". The error joins all faults, each with its row.
func NewGuard(engine *core.Engine, place string, table *policy.Table) (*Guard, error) {
	if table == nil {
		return nil, errors.New("the table is nil: give the table from policy.NewTable")
	}
	g := &Guard{engine: engine, methods: make(map[string]*Method), rows: procedures(table)}
	var all []error
	for _, row := range g.rows {
		method, err := g.compile(place, &row)
		if err != nil {
			all = append(all, fmt.Errorf("policy: %s: %s: %w", row.Source, row.Route(), err))
			continue
		}
		g.methods[row.Pattern] = method
	}
	return g, errors.Join(all...)
}

// procedures returns the rows of a table but those of adapters/mcp, which name tools.
func procedures(table *policy.Table) []policy.Declaration {
	return slices.DeleteFunc(table.Declarations(), func(row policy.Declaration) bool { return row.Method == storage.MethodTool })
}

// Method returns a guarded procedure, or nil.
func (g *Guard) Method(procedure string) *Method { return g.methods[procedure] }

// Audit compares the table with the unary procedures that a server has. Those of gRPC itself, such as
// grpc.health.v1.Health/Check, only read, and no program can give them a level.
func (g *Guard) Audit(unary []string) policy.Report {
	var report policy.Report
	for _, row := range g.rows {
		if !slices.Contains(unary, row.Pattern) {
			report.Errors = append(report.Errors, fmt.Errorf("policy: %s: %s matches no procedure of the server: register its service", row.Source, row.Route()))
		}
	}
	slices.Sort(unary)
	for _, procedure := range unary {
		if g.methods[procedure] == nil && !isRepeatable(procedure) && !strings.HasPrefix(procedure, "/grpc.") {
			report.Warnings = append(report.Warnings, procedure+" is not guarded: no idempotency policy covers it, so a retry runs its handler again")
		}
	}
	return report
}

func (g *Guard) compile(place string, row *policy.Declaration) (*Method, error) {
	described, err := describe(row.Pattern)
	if err != nil {
		return nil, err
	}
	switch level := levelOf(described); {
	case row.Method != http.MethodPost:
		return nil, fmt.Errorf("the method is %s: procedures are declared with POST", row.Method)
	case described.IsStreamingClient() || described.IsStreamingServer():
		return nil, errors.New("a stream cannot be stored and replayed: leave it out of the table")
	case level == descriptorpb.MethodOptions_NO_SIDE_EFFECTS:
		return nil, errors.New("its idempotency_level is NO_SIDE_EFFECTS, so that it is safe to repeat as it is: leave it out of the table")
	case len(row.Policy.RedactFields) > 0:
		return nil, &policy.FieldError{Field: "RedactFields", Value: row.Policy.RedactFields, Want: "left out, because stored messages are not JSON"}
	}
	if err := checkKeyField(described.Input(), row.Policy.KeyField); err != nil {
		return nil, err
	}
	route, err := g.engine.RouteWith(core.Declaration{Place: place, WriteProblem: writeProblem}, policy.From(row.Policy))
	if err != nil {
		return nil, err
	}
	return &Method{procedure: row.Pattern, route: route, maxBytes: row.Policy.MaxRequestBytes, response: typeOf(described.Output())}, nil
}

// describe finds a procedure in the generated code that the program links.
func describe(procedure string) (protoreflect.MethodDescriptor, error) {
	service, name, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if described, is := found.(protoreflect.ServiceDescriptor); err == nil && is {
		if method := described.Methods().ByName(protoreflect.Name(name)); method != nil {
			return method, nil
		}
		return nil, fmt.Errorf("the service %s has no method %q", service, name)
	}
	return nil, fmt.Errorf("the program links no service %q: write the full name, such as /shop.v1.Payments/Pay, and import the generated package", service)
}

func levelOf(method protoreflect.MethodDescriptor) descriptorpb.MethodOptions_IdempotencyLevel {
	options, _ := method.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel()
}

// isRepeatable reports whether the .proto file says that a procedure is safe to repeat.
func isRepeatable(procedure string) bool {
	method, err := describe(procedure)
	return err == nil && levelOf(method) != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}

func typeOf(described protoreflect.MessageDescriptor) protoreflect.MessageType {
	if generated, err := protoregistry.GlobalTypes.FindMessageByName(described.FullName()); err == nil {
		return generated
	}
	return dynamicpb.NewMessageType(described)
}

// checkKeyField refuses a KeyField that no message of the procedure can have.
func checkKeyField(message protoreflect.MessageDescriptor, path string) error {
	if path == "" {
		return nil
	}
	wrong := func(want string) error {
		return &policy.FieldError{Field: "KeyField", Value: path, Want: want}
	}
	var field protoreflect.FieldDescriptor
	for name := range strings.SplitSeq(path, ".") {
		if message == nil {
			return wrong("the path of a string or of an integer")
		}
		if field = message.Fields().ByName(protoreflect.Name(name)); field == nil {
			return wrong(fmt.Sprintf("a field of %s, by its name in the .proto file", message.FullName()))
		}
		if message = field.Message(); field.IsList() || field.IsMap() {
			return wrong("a path without lists and maps")
		}
	}
	if message != nil || !isKeyKind(field.Kind()) {
		return wrong("the path of a string or of an integer")
	}
	return nil
}

func isKeyKind(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.BytesKind:
		return false
	default:
		return true
	}
}
