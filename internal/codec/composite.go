package codec

import (
	"fmt"
	"reflect"
)

type pointerPlan struct{ elem plan }

func (p *pointerPlan) size(v reflect.Value) int {
	if v.IsNil() {
		return 0
	}
	return p.elem.size(v.Elem())
}

func (p *pointerPlan) encode(e *encoder, v reflect.Value) error {
	if v.IsNil() {
		return e.WriteByte(null)
	}
	return p.elem.encode(e, v.Elem())
}

func (p *pointerPlan) decode(d *decoder, v reflect.Value) error {
	if d.null() {
		v.SetZero()
		return nil
	}
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	return p.elem.decode(d, v.Elem())
}

type slicePlan struct{ elem plan }

func (p *slicePlan) size(v reflect.Value) (n int) {
	for i := range v.Len() {
		n += p.elem.size(v.Index(i))
	}
	return n
}

func (p *slicePlan) encode(e *encoder, v reflect.Value) error {
	if v.IsNil() {
		return e.WriteByte(null)
	}
	writeHead(&e.Buffer, majorArray, v.Len())
	for i := range v.Len() {
		if err := p.elem.encode(e, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (p *slicePlan) decode(d *decoder, v reflect.Value) error {
	if d.null() {
		v.SetZero()
		return nil
	}
	n, err := d.head(majorArray)
	if err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n)) // the data has n items, of at least a byte each
	for i := range n {
		if err := p.elem.decode(d, v.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

type arrayPlan struct{ elem plan }

func (p *arrayPlan) size(v reflect.Value) (n int) {
	for i := range v.Len() {
		n += p.elem.size(v.Index(i))
	}
	return n
}

func (p *arrayPlan) encode(e *encoder, v reflect.Value) error {
	writeHead(&e.Buffer, majorArray, v.Len())
	for i := range v.Len() {
		if err := p.elem.encode(e, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (p *arrayPlan) decode(d *decoder, v reflect.Value) error {
	n, err := d.head(majorArray)
	if err != nil {
		return err
	}
	if n != v.Len() {
		return fmt.Errorf("found %d elements instead of %d", n, v.Len())
	}
	for i := range n {
		if err := p.elem.decode(d, v.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

type mapPlan struct{ key, elem plan }

func (p *mapPlan) size(v reflect.Value) (n int) {
	for it := v.MapRange(); it.Next(); {
		n += p.key.size(it.Key()) + p.elem.size(it.Value())
	}
	return n
}

func (p *mapPlan) encode(e *encoder, v reflect.Value) error {
	if v.IsNil() {
		return e.WriteByte(null)
	}
	writeHead(&e.Buffer, majorMap, v.Len())
	for it := v.MapRange(); it.Next(); {
		if err := p.key.encode(e, it.Key()); err != nil {
			return err
		}
		if err := p.elem.encode(e, it.Value()); err != nil {
			return err
		}
	}
	return nil
}

func (p *mapPlan) decode(d *decoder, v reflect.Value) error {
	if d.null() {
		v.SetZero()
		return nil
	}
	n, err := d.head(majorMap)
	if err != nil {
		return err
	}
	if v.IsNil() {
		v.Set(reflect.MakeMapWithSize(v.Type(), n))
	}
	for range n {
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if err := p.key.decode(d, key); err != nil {
			return err
		}
		if err := p.elem.decode(d, elem); err != nil {
			return err
		}
		if !key.Comparable() {
			return fmt.Errorf("a key of %s cannot be compared", v.Type())
		}
		v.SetMapIndex(key, elem)
	}
	return nil
}

type structPlan struct {
	fields []fieldPlan
	byName map[string]int
}

type fieldPlan struct {
	name  string
	index int
	plan  plan
}

func (p *structPlan) size(v reflect.Value) (n int) {
	for _, f := range p.fields {
		n += f.plan.size(v.Field(f.index))
	}
	return n
}

func (p *structPlan) encode(e *encoder, v reflect.Value) error {
	writeHead(&e.Buffer, majorMap, len(p.fields))
	for _, f := range p.fields {
		writeHead(&e.Buffer, majorText, len(f.name))
		e.WriteString(f.name)
		if err := f.plan.encode(e, v.Field(f.index)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func (p *structPlan) decode(d *decoder, v reflect.Value) error {
	if d.null() {
		return nil // like the cbor package: the value stays unchanged
	}
	n, err := d.head(majorMap)
	if err != nil {
		return err
	}
	for range n {
		size, err := d.head(majorText)
		if err != nil {
			return err
		}
		name := string(d.take(size))
		i, ok := p.byName[name]
		if !ok {
			return fmt.Errorf("the struct has no field %.40q", name)
		}
		if err := p.fields[i].plan.decode(d, v.Field(p.fields[i].index)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
