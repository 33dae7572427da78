//! Polynomials over the field, lowest coefficient first.

use crate::field;

/// The polynomial of degree below n that has these values at the n-th roots of unity, in the order w^0, w^1, ...
pub fn interpolate(values: &[u64]) -> Vec<u64> {
    let root = field::root_of_unity(log_size(values));
    let scale = field::inverse(values.len() as u64);
    fourier(values, field::inverse(root)).into_iter().map(|sum| field::mul(sum, scale)).collect()
}

/// Horner's rule.
pub fn evaluate(coefficients: &[u64], point: u64) -> u64 {
    coefficients.iter().rev().fold(0, |sum, &c| field::add(field::mul(sum, point), c))
}

/// (f(X) - f(point)) / (X - point) by synthetic division, padded with a zero to the length of f.
pub fn quotient(coefficients: &[u64], point: u64) -> Vec<u64> {
    let mut result = vec![0; coefficients.len()];
    for i in (1..coefficients.len()).rev() {
        let above = result[i];
        result[i - 1] = field::add(coefficients[i], field::mul(above, point));
    }
    result
}

/// The base-2 logarithm of a length that must be a power of two.
fn log_size(values: &[u64]) -> u32 {
    assert!(values.len().is_power_of_two(), "{} is not a power of two", values.len());
    values.len().ilog2()
}

/// Sums of values[i] * root^(i*j), recursively; the kernel works in place and in stages.
fn fourier(values: &[u64], root: u64) -> Vec<u64> {
    if values.len() == 1 {
        return values.to_vec();
    }
    let half = |first: usize| -> Vec<u64> {
        let every_second: Vec<u64> = values.iter().copied().skip(first).step_by(2).collect();
        fourier(&every_second, field::mul(root, root))
    };
    let (even, odd) = (half(0), half(1));
    let mut result = vec![0; values.len()];
    let mut twiddle = 1;
    for (i, (&e, &o)) in even.iter().zip(&odd).enumerate() {
        let turned = field::mul(o, twiddle);
        result[i] = field::add(e, turned);
        result[i + even.len()] = field::sub(e, turned);
        twiddle = field::mul(twiddle, root);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::witness;

    #[test]
    fn interpolation_meets_every_value() {
        for log_size in 0..=5 {
            let values = witness(7, 1 << log_size);
            let coefficients = interpolate(&values);
            for (i, &value) in values.iter().enumerate() {
                let point = field::pow(field::root_of_unity(log_size), i as u64);
                assert_eq!(evaluate(&coefficients, point), value);
            }
        }
    }

    #[test]
    fn quotient_times_divisor_gives_the_dividend_back() {
        let f = witness(1, 32);
        let point = 123_456_789;
        let q = quotient(&f, point);
        for x in [0, 1, 2, 1 << 40, field::P - 1] {
            let product = field::mul(evaluate(&q, x), field::sub(x, point));
            assert_eq!(field::add(product, evaluate(&f, point)), evaluate(&f, x));
        }
    }
}
