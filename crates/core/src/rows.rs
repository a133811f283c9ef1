//! Row ops see their operands as rows: one inner dimension, and outer dimensions collapsed to at most three.

use crate::{DescError, RowSpace, RowsView, Rule, TensorDesc};

/// An operand to collapse: its name, for errors, and its descriptor.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "plain")]
pub struct RowOperand<'a> {
    pub name: &'static str,
    pub desc: &'a TensorDesc,
}

/// Collapses operands of one shape to rows along dimension `axis`: neighbouring outer dimensions that one stride describes in every operand are
/// merged, dimensions of extent 1 dropped. With `flatten`, what is contiguous in every operand joins the inner dimension (an elementwise op does
/// not care where a row ends). Returns the space and each operand's strides, without a buffer.
///
/// # Errors
/// More than three outer dimensions remain.
pub fn collapse_rows(operands: &[RowOperand<'_>], axis: usize, flatten: bool) -> Result<(RowSpace, Vec<RowsView>), DescError> {
    let first = operands[0].desc;
    let strides = |d: usize| -> Vec<i64> { operands.iter().map(|o| o.desc.strides[d]).collect() };
    // (extent, stride in each operand), slowest first; the axis last
    let mut dims: Vec<(u64, Vec<i64>)> =
        (0..first.rank()).filter(|&d| d != axis && first.shape[d] != 1).map(|d| (first.shape[d], strides(d))).collect();
    let mut inner = if axis < first.rank() { (first.shape[axis], strides(axis)) } else { (1, vec![1; operands.len()]) };
    if inner.0 == 1 {
        inner.1 = vec![1; operands.len()];
        if flatten && let Some(last) = dims.pop() {
            inner = last;
        }
    }
    let continues = |outer: &[i64], (n, inner): &(u64, Vec<i64>)| outer.iter().zip(inner).all(|(&o, &i)| i.checked_mul(*n as i64) == Some(o));
    let mut outer: Vec<(u64, Vec<i64>)> = Vec::new();
    for d in dims.into_iter().rev() {
        if flatten && outer.is_empty() && continues(&d.1, &inner) {
            inner.0 *= d.0;
        } else if let Some(last) = outer.last_mut()
            && continues(&d.1, last)
        {
            last.0 *= d.0;
        } else {
            outer.push(d);
        }
    }
    if outer.len() > 3 {
        return Err(DescError {
            operand: operands[0].name,
            rule: Rule::CollapsesToRows,
            got: operands.iter().map(|o| format!("{}={}", o.name, o.desc)).collect::<Vec<_>>().join(" "),
            expected: "three outer dimensions or fewer, after merging those that one stride describes".into(),
        });
    }
    outer.resize(3, (1, vec![0; operands.len()]));
    let space = RowSpace { n: inner.0, outer: [outer[2].0, outer[1].0, outer[0].0] };
    let views =
        (0..operands.len()).map(|i| RowsView { buffer: None, stride: inner.1[i], outer: [outer[2].1[i], outer[1].1[i], outer[0].1[i]] }).collect();
    Ok((space, views))
}
